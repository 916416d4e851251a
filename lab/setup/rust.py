# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Rust compiler: the one in PATH (rustup's, say) or Debian's; 1.85 or newer."""

from __future__ import annotations

import re

from lab.errors import InfraError
from lab.run import find_tool, run
from lab.setup.host import explain, is_root
from lab.setup.packages import apt_get, apt_versions, newest
from lab.setup.progress import Progress

OLDEST = (1, 85)  # Debian 13's
# Debian 12 has an old rustc, and a newer one that its browsers are built with.
CHOICES = (
    ("rustc", ("rustc", "cargo", "rust-clippy", "rustfmt")),
    ("rustc-web", ("rustc-web", "cargo-web", "rust-web-clippy", "rustfmt-web")),
)


def found_version() -> str | None:
    """What `rustc` in PATH says, or None."""
    if find_tool("rustc") is None or find_tool("cargo") is None:
        return None
    done = run(["rustc", "--version"], check=False)
    return done.stdout.strip() if done.ok else None


def is_new_enough(version: str) -> bool:
    match = re.search(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST


def ensure_rust(progress: Progress) -> str:
    """The compiler's version; installs Debian's if there is none, never replaces a person's."""
    found = found_version()
    if found is not None:
        if is_new_enough(found):
            return found
        raise InfraError(
            f"the Rust compiler in PATH is {found}; {OLDEST[0]}.{OLDEST[1]} or newer is needed: "
            "`rustup update stable`, or take it out of PATH for Debian's"
        )
    for probe, packages in CHOICES:
        if not is_new_enough(newest(apt_versions(probe))):
            continue
        if not is_root():
            raise InfraError(f"no Rust compiler; as root: apt-get install {' '.join(packages)}")
        with progress.step("packages: Rust"):
            try:
                apt_get("install", "--no-install-recommends", *packages)
            except InfraError as error:
                raise explain(error, "installing Rust") from error
        found = found_version()
        if found is not None and is_new_enough(found):
            return found
    raise InfraError(
        f"no Rust >= {OLDEST[0]}.{OLDEST[1]}: Debian 13 has rustc, Debian 12 rustc-web; "
        "or install it with rustup"
    )

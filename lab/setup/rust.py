# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Rust compiler: the one in the user's PATH (rustup's, say) or Debian's; 1.85 or newer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.errors import InfraError
from lab.run import host_path, run
from lab.setup.apt import apt_versions, newest

OLDEST = (1, 85)  # Debian 13's
# Debian 12 has an old rustc, and a newer one for building its browsers.
CHOICES = (
    ("rustc", ("rustc", "cargo", "rust-clippy", "rustfmt")),
    ("rustc-web", ("rustc-web", "cargo-web", "rust-web-clippy", "rustfmt-web")),
)
PACKAGE_NAMES = tuple(name for _, names in CHOICES for name in names)
PROGRAMS = ("cargo", "rustc", "rustdoc", "rustfmt", "cargo-fmt", "cargo-clippy", "clippy-driver")
NO_RUST = (
    f"no Rust >= {OLDEST[0]}.{OLDEST[1]}: Debian 13 has rustc, Debian 12 rustc-web; "
    "or install it with rustup"
)


def folder() -> Path | None:
    """Return the folder of cargo and rustc in the user's PATH."""
    found = [shutil.which(name, path=host_path()) for name in ("cargo", "rustc")]
    return Path(found[0]).parent if found[0] and found[1] else None


def programs() -> list[Path]:
    """Return the compiler's programs that are installed."""
    place = folder()
    return [] if place is None else [place / n for n in PROGRAMS if (place / n).exists()]


def packages() -> tuple[str, ...]:
    """Return the packages to install if there is no compiler, by apt's lists."""
    for probe, names in CHOICES:
        if is_new_enough(newest(apt_versions(probe))):
            return names
    raise InfraError(NO_RUST)


def found_version() -> str | None:
    """Return the version that rustc reports, or None."""
    place = folder()
    if place is None:
        return None
    done = run([place / "rustc", "--version"], check=False)
    return done.stdout.strip() if done.ok else None


def checked_version() -> str:
    """Return it; raise InfraError if it is missing or too old. The user's own is never replaced."""
    found = found_version()
    if found is None:
        raise InfraError(NO_RUST)
    if not is_new_enough(found):
        raise InfraError(
            f"the Rust compiler in PATH is {found}; {OLDEST[0]}.{OLDEST[1]} or newer is needed: "
            "`rustup update stable`, or remove it from PATH to use Debian's"
        )
    return found


def is_new_enough(version: str) -> bool:
    match = re.search(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST

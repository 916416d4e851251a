# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rows of `rem doctor`: what is installed and built, and how to get what is missing.

Changes nothing.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RemError
from lab.paths import cache_dir, ssh_key, state_dir
from lab.run import find_tool, run
from lab.setup import kernel, loader, root, rust
from lab.setup.apt import installed_versions
from lab.setup.host import MIB, debian, is_root, need_disk
from lab.setup.install import missing
from lab.setup.packages import KERNEL_SOURCE, RARE, USUAL, of_groups
from lab.setup.plugin import Plugin
from lab.setup.power import Power

SET_UP = "./rem setup"


@dataclass(frozen=True)
class Row:
    """One line of the table; `todo` is empty when there is nothing to do."""

    name: str
    found: str
    todo: str = ""

    @property
    def ok(self) -> bool:
        return not self.todo


def rows() -> list[Row]:
    """Return all checks, in the order of set-up."""
    checks: tuple[Callable[[], Iterator[Row]], ...] = (
        _system,
        _disk,
        _network,
        _packages,
        _rust,
        _products,
    )
    found: list[Row] = []
    for check in checks:
        try:
            found += check()
        except RemError as error:
            what, _, todo = error.message.partition(": ")
            found.append(Row(check.__name__.strip("_"), what, todo or SET_UP))
    return found


def _system() -> Iterator[Row]:
    system = debian()
    yield Row("system", f"Debian {system.version} ({system.codename}), {platform.machine()}")
    yield Row("python", platform.python_version())
    if is_root():
        yield Row("rights", "root")
    else:
        yield Row("rights", "an ordinary user: packages and guest root need root once")


def _disk() -> Iterator[Row]:
    for name, path, need_mib in (
        ("cache", cache_dir(), kernel.BUILD_MIB),
        ("state", state_dir(), root.IMAGE_BYTES // MIB),
    ):
        try:
            need_disk(path, need_mib, f"the {name}")
            yield Row(f"disk: {name}", str(path))
        except RemError as error:
            yield Row(f"disk: {name}", *error.message.split(": ", 1))


def _network() -> Iterator[Row]:
    """Without a namespace and a tap, a machine uses QEMU's user-mode network."""
    tun = Path("/dev/net/tun")
    lacks = []
    if find_tool("unshare") is None or not run(["unshare", "--net", "true"], check=False).ok:
        lacks.append("no right to make a network namespace")
    if not os.access(tun, os.R_OK | os.W_OK):
        lacks.append(f"no {tun}")
    how = f"user-mode ({', '.join(lacks)})" if lacks else "tap in a namespace of its own"
    yield Row("network", how)


def _packages() -> Iterator[Row]:
    listed, lacking = of_groups(USUAL), missing(USUAL)
    for package in lacking:
        bound = f" >= {package.at_least}" if package.at_least else ""
        yield Row(f"package {package.name}", f"missing{bound}: {package.why}", SET_UP)
    yield Row("packages", f"{len(listed) - len(lacking)} of {len(listed)}")
    for group in RARE:
        names = ", ".join(p.name for p in missing((group,)))
        how = f"not installed: {names}; installed when first needed" if names else "installed"
        yield Row(f"packages: {group}", how)
    if find_tool("qemu-system-x86_64") is not None:
        version = run(["qemu-system-x86_64", "--version"]).stdout.partition("\n")[0]
        yield Row("qemu", version.replace("QEMU emulator version ", ""))


def _rust() -> Iterator[Row]:
    found = rust.found_version()
    if found is None:
        yield Row("rust", "missing", SET_UP)
    elif not rust.is_new_enough(found):
        yield Row("rust", found, "older than 1.85: rustup update stable")
    else:
        yield Row("rust", found)


def _products() -> Iterator[Row]:
    compiler = rust.found_version() or ""
    source = installed_versions([KERNEL_SOURCE]).get(KERNEL_SOURCE, "")
    public_key = ssh_key().with_suffix(".pub")
    public = public_key.read_text(encoding="utf-8").strip() if public_key.exists() else ""
    keys: dict[str, Callable[[], str]] = {
        "loader": loader.loader_key,
        "plugin": lambda: Plugin.key(compiler),
        "power": lambda: Power.key(compiler),
        "root": lambda: root.default_key(debian().codename, public),
        "kernel": lambda: kernel.kernel_key(source),
    }
    for kind, key in keys.items():
        folder = cache_dir() / kind / key()
        if folder.is_dir():
            yield Row(kind, str(folder))
        else:
            yield Row(kind, "not built for this checkout", SET_UP)

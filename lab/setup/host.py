# SPDX-License-Identifier: Apache-2.0 OR MIT
"""This machine: Debian's version, the user's rights, disk space. Each error is one line."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import run

DEBIAN_OLDEST = 12  # its backports have QEMU 10, its security archive linux-source-6.12
MIB = 1 << 20

# What apt, pip, cargo and mmdebstrap print when they cannot reach a server.
_NO_NETWORK = re.compile(
    r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect"
    r"|Network is unreachable|Connection (?:failed|refused|timed out)|No route to host"
    r"|spurious network error|Failed to fetch",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|enough free space", re.IGNORECASE)


@dataclass(frozen=True)
class Debian:
    version: int
    codename: str


def debian(os_release: str | None = None) -> Debian:
    """Return the Debian of this machine, or raise InfraError if it is another system or too old."""
    if os_release is None:
        path = Path("/etc/os-release")
        os_release = path.read_text(encoding="utf-8") if path.exists() else ""
    fields = dict(w.split("=", 1) for w in shlex.split(os_release, comments=True) if "=" in w)
    name = fields.get("PRETTY_NAME", "an unknown system")
    version = fields.get("VERSION_ID", "")
    if fields.get("ID") != "debian" or not version.isdigit() or int(version) < DEBIAN_OLDEST:
        raise InfraError(
            f"this is {name}; set-up supports Debian {DEBIAN_OLDEST} and newer stable releases: "
            "run it there, or in a container or virtual machine of it"
        )
    return Debian(int(version), fields.get("VERSION_CODENAME", ""))


def is_root() -> bool:
    return os.geteuid() == 0


def once_as_root(more: str = "") -> str:
    """Return the command that root has to run once, for this user's cache."""
    words = [f"REM_CACHE={shlex.quote(str(cache_dir()))}", shlex.quote(str(repo_dir() / "rem"))]
    return f"as root, once: {' '.join(words)} setup{more}"


def need_disk(where: Path, need_mib: int, what: str) -> None:
    """Raise InfraError before the work begins, not in the middle of it."""
    probe = where
    while not probe.exists():
        probe = probe.parent
    stat = os.statvfs(probe)
    free_mib = stat.f_bavail * stat.f_frsize // MIB
    if free_mib < need_mib:
        raise InfraError(
            f"no disk space for {what}: {need_mib} MiB needed, {free_mib} MiB free on the disk "
            f"of {where}: free some, or set REM_CACHE to a folder on a larger disk"
        )


def tool_version(name: str) -> str:
    """Return the first line of `NAME --version`."""
    return run([name, "--version"]).stdout.partition("\n")[0]


def explain(error: InfraError, what: str) -> InfraError:
    """Return the same error as one line, if the installer's output has a known cause."""
    if _NO_SPACE.search(error.message):
        return InfraError(f"no disk space while {what}: free some, then run `./rem setup` again")
    if _NO_NETWORK.search(error.message):
        return InfraError(
            f"no network while {what}: check the connection or the proxy, then run "
            "`./rem setup` again (it continues where it stopped)"
        )
    return error

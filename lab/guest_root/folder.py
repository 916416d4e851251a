# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A folder of the host as a guest's root."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lab.archive.limits import ArchiveError, Budget, shown
from lab.archive.tree import BLOCK_BYTES
from lab.errors import UsageError
from lab.run import run

# Init mounts devices, processes and temporary files there: the folder's own are omitted.
MOUNTED = frozenset({"dev", "proc", "sys", "run", "tmp"})
# Every root that can run a program has one of these.
ROOT_SIGNS = ("bin", "usr", "sbin", "lib", "opt")


def check(folder: Path, budget: Budget) -> None:
    """Refuse a folder that cannot be a root, or exceeds the budget, before anything is copied."""
    if not any((folder / name).is_dir() for name in ROOT_SIGNS):
        raise UsageError(
            f"--oci {folder}: neither an image layout (it has no file oci-layout) nor a root "
            f"(it has none of {', '.join(ROOT_SIGNS)})"
        )
    for path, found in _walk(folder):
        kind = stat.S_IFMT(found.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFSOCK):
            name = shown(str(path.relative_to(folder)))
            raise ArchiveError(f"{name} is a device or a FIFO: refused in a root")
        size_bytes = found.st_size if kind == stat.S_IFREG else BLOCK_BYTES
        budget.charge_entry(size_bytes + -size_bytes % BLOCK_BYTES)


def fingerprint(folder: Path) -> str:
    """Return a hash of the names, inodes and times of all files, but not of their contents."""
    found = hashlib.sha256()
    for path, about in _walk(folder):
        words = (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        found.update(f"{path.relative_to(folder)}\0{words}\0".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def copy(folder: Path, into: Path) -> None:
    """Copy with owners, modes and links; *into* exists and is empty."""
    for name in sorted(os.listdir(folder)):
        if name in MOUNTED and not (folder / name).is_symlink():
            (into / name).mkdir(mode=0o755)
        else:
            run(["cp", "-a", "--", folder / name, into], what="copying the root")
    into.chmod(stat.S_IMODE(folder.stat().st_mode))


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield all files to copy, in an order independent of the disk; no link is followed."""

    def failed(error: OSError) -> None:
        raise error

    for where, folders, files in os.walk(folder, onerror=failed):
        top = Path(where) == folder
        folders[:] = sorted(name for name in folders if not (top and name in MOUNTED))
        for name in (*folders, *sorted(files)):
            path = Path(where) / name
            yield path, path.lstat()

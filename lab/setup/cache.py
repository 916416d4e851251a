# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cache of products: CACHE/KIND/KEY, complete or absent.

A product is made in a folder beside its place and renamed when it is whole, under a lock: what an
interrupted set-up leaves is never taken for a product, and two set-ups do not work against each
other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import InfraError
from lab.messages import info
from lab.paths import cache_dir

KEPT = 6  # products of a kind that `prune` leaves: a few branches' worth


def product(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder of the product; `make` fills a folder with it if it is not there."""
    final = cache_dir() / kind / key
    if final.is_dir():
        os.utime(final)  # `prune` leaves what was used last
        return final
    with lock(kind):
        if final.is_dir():  # another set-up made it while this one waited
            return final
        partial = final.with_name(f".{key}.partial")
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        make(partial)
        partial.rename(final)
        prune(kind)
    return final


def prune(kind: str, kept: int = KEPT) -> None:
    """Remove all but the few products of a kind that were used last."""
    folder = cache_dir() / kind
    found = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    found.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in found[kept:]:
        shutil.rmtree(old)


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold CACHE/locks/NAME; waiting is said."""
    folder = cache_dir() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InfraError(
            f"cannot write to {folder}: {error.strerror}: free the folder or set REM_CACHE"
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            info(f"waiting for another `rem` that is making the {name} ...")
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

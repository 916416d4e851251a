# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cache of products: CACHE/KIND/KEY, complete or absent.

A product is made in a folder beside its place and renamed when it is complete, under a lock: an
interrupted set-up never leaves a partial product, and two set-ups do not disturb each other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.progress import step

KEPT = 6  # products of a kind that `prune` keeps: for a few branches


def product(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of the product; `make` fills it if it is missing."""
    final = cache_dir() / kind / key
    if final.is_dir():
        os.utime(final)  # `prune` keeps the most recently used
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


def products() -> set[str]:
    """KIND/KEY of each product in the cache."""
    kinds = [lock.name for lock in (cache_dir() / "locks").glob("*")]
    return {
        f"{kind}/{path.name}"
        for kind in kinds
        for path in (cache_dir() / kind).glob("[!.]*")
        if path.is_dir()
    }


def prune(kind: str, kept: int = KEPT) -> None:
    """Remove all products of a kind except the most recently used."""
    folder = cache_dir() / kind
    found = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    found.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in found[kept:]:
        shutil.rmtree(old)


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold CACHE/locks/NAME; print a line if that has to wait."""
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
            with step(f"waiting for another `rem` that makes {name}"):
                fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

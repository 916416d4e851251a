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
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.progress import step
from lab.setup.mounts import remove_tree

KEPT = 6  # products of a kind that `prune` keeps: for a few branches

_records: list[set[str]] = []


def product(
    kind: str, key: str, make: Callable[[Path], None], lock_name: str | None = None
) -> Path:
    """Return the folder of the product; `make` fills it if it is missing.

    *lock_name*: where products of a kind may be made beside each other, what those share that may
    not.
    """
    for record in _records:
        record.add(f"{kind}/{key}")
    final = cache_dir() / kind / key
    if final.is_dir():
        os.utime(final)  # `prune` keeps the most recently used
        return final
    _note_kind(kind)
    with lock(lock_name or kind):
        if final.is_dir():  # another set-up made it while this one waited
            return final
        partial = final.with_name(f".{key}.partial")
        if partial.exists():
            remove_tree(partial)  # of a set-up that was interrupted
        partial.mkdir(parents=True)
        make(partial)
        partial.rename(final)
        prune(kind)
    return final


def _note_kind(kind: str) -> None:
    """There are products of this kind: its lock is in the folder of locks."""
    if not (cache_dir() / "locks" / kind).exists():
        with lock(kind):
            pass


@contextmanager
def recorded_products() -> Iterator[set[str]]:
    """A set to which KIND/KEY of each product is added that a part takes while the body runs."""
    record: set[str] = set()
    _records.append(record)
    try:
        yield record
    finally:
        _records.remove(record)


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
    found = []
    for path in folder.glob("[!.]*"):
        with suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, path))
    for _, old in sorted(found, reverse=True)[kept:]:
        shutil.rmtree(old, ignore_errors=True)  # another one may be removing it


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

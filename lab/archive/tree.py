# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Write below a directory by names from an untrusted source.

Each name is walked component by component with open file descriptors, and no step follows a
symbolic link by itself: nothing outside of the directory is reached, whatever the names are. A link
inside is either refused (LinkPolicy.REFUSE) or resolved as by a process whose root is the directory
(LinkPolicy.INSIDE).

Invariant: no other process writes to the directory meanwhile; it is private until it is complete.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.archive.limits import DEPTH_MAX, ArchiveError, Budget, shown

LINKS_MAX = 40  # the kernel's limit: more are a loop
STEPS_MAX = 2048  # of one walk, links resolved: twice what fits into the longest path
BLOCK_BYTES = 4096  # of the tree's file system, which stores whole blocks
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

PathParts = tuple[str, ...]


class LinkPolicy(Enum):
    REFUSE = "refuse"
    INSIDE = "inside"


@dataclass(frozen=True)
class _Late:
    """Mode and time that a directory gets at the end."""

    inode: int
    mode: int
    time_ns: int


class Tree:
    """Use as a context manager; finish() sets what can only be set at the end."""

    def __init__(self, root: Path, links: LinkPolicy, budget: Budget) -> None:
        self._root = os.open(root, _DIRECTORY)
        self._links = links
        self._budget = budget
        # Times and modes of directories come last: files created in them would change the times,
        # and a mode without write permission would keep files out.
        self._directories: dict[PathParts, _Late] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._root)

    def make_directory(self, path: PathParts, mode: int, time_ns: int) -> None:
        """Make a directory; an existing one keeps its content and gets the new mode."""
        self._budget.charge_entry(BLOCK_BYTES)
        if path:
            with self._parent(path, make=True) as (parent, name):
                found = _lstat(parent, name)
                if found is not None and not stat.S_ISDIR(found.st_mode):
                    _remove_at(parent, name)
                    found = None
                if found is None:
                    os.mkdir(name, 0o700, dir_fd=parent)
        with self._opened_parent(path) as (parent, name):
            now = os.stat(name, dir_fd=parent, follow_symlinks=False)
        self._directories[path] = _Late(now.st_ino, mode, time_ns)

    def make_file(
        self, path: PathParts, mode: int, time_ns: int, size_bytes: int, data: Iterable[bytes]
    ) -> None:
        """Make a file; an existing one of that name is removed first, and never written to."""
        self._budget.charge_entry(size_bytes + -size_bytes % BLOCK_BYTES)
        with self._parent(path, make=True) as (parent, name):
            _remove_at(parent, name)
            fd = os.open(name, _NEW_FILE, 0o600, dir_fd=parent)
            try:
                for chunk in data:
                    _write_all(fd, chunk)
                os.fchmod(fd, mode)
                os.utime(fd, ns=(time_ns, time_ns))
            finally:
                os.close(fd)

    def make_symlink(self, path: PathParts, target: str, time_ns: int) -> None:
        self._budget.charge_entry(BLOCK_BYTES)
        with self._parent(path, make=True) as (parent, name):
            _remove_at(parent, name)
            os.symlink(target, name, dir_fd=parent)
            os.utime(name, ns=(time_ns, time_ns), dir_fd=parent, follow_symlinks=False)

    def make_hardlink(self, path: PathParts, target: PathParts) -> None:
        """Link to an existing file inside. A symbolic link is linked to, not followed."""
        self._budget.charge_entry(0)
        with (
            self._parent(target) as (old_parent, old),
            self._parent(path, make=True) as (new, name),
        ):
            found = _lstat(old_parent, old)
            if found is None or not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                what = shown("/".join(target))
                raise _error(path, f"a hard link to {what}, which is not a file of the archive")
            with suppress(FileNotFoundError):
                if os.path.samestat(found, os.stat(name, dir_fd=new, follow_symlinks=False)):
                    return  # to itself
            _remove_at(new, name)
            os.link(old, name, src_dir_fd=old_parent, dst_dir_fd=new, follow_symlinks=False)

    def set_owner(self, path: PathParts, uid: int, gid: int) -> None:
        """Set the owner, before set_mode(): a change of owner clears set-user-ID bits."""
        with self._opened_parent(path) as (parent, name):
            os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)

    def set_mode(self, path: PathParts, mode: int) -> None:
        """Set the mode of a regular file."""
        with self._file(path) as fd:
            os.fchmod(fd, mode)

    def set_xattr(self, path: PathParts, name: str, value: bytes) -> None:
        """Set an extended attribute of a regular file."""
        with self._file(path) as fd:
            os.setxattr(fd, name, value)

    def remove(self, path: PathParts) -> None:
        """Remove a name with everything below it, if it exists."""
        with suppress(FileNotFoundError, NotADirectoryError), self._parent(path) as (parent, name):
            _remove_at(parent, name)

    def list(self, path: PathParts) -> list[str]:
        """Return the names in a directory; none if it does not exist."""
        try:
            with self._directory(path) as fd:
                return os.listdir(fd)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: PathParts, limit_bytes: int) -> bytes | None:
        """Return the content of a small regular file inside; None if there is none."""
        try:
            with self._file(path) as fd, os.fdopen(os.dup(fd), "rb") as source:
                data = source.read(limit_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if len(data) > limit_bytes:
            raise _error(path, f"more than {limit_bytes} bytes")
        return data

    def is_executable(self, path: PathParts) -> bool:
        try:
            with self._file(path) as fd:
                return bool(os.fstat(fd).st_mode & 0o111)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def is_directory(self, path: PathParts) -> bool:
        """Whether the path is a directory, also through links."""
        try:
            with self._directory(path):
                return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    def finish(self) -> None:
        """Set modes and times of directories, the deepest first."""
        for path in sorted(self._directories, key=len, reverse=True):
            late = self._directories[path]
            # A directory that was removed, or replaced by something else, is left out.
            with suppress(FileNotFoundError, NotADirectoryError), self._directory(path) as fd:
                if os.fstat(fd).st_ino == late.inode:
                    os.fchmod(fd, late.mode)
                    os.utime(fd, ns=(late.time_ns, late.time_ns))
        self._directories.clear()

    @contextmanager
    def _file(self, path: PathParts) -> Iterator[int]:
        """Open a regular file for reading; links are resolved by the policy."""
        with self._opened_parent(path, follow_last=True) as (parent, name):
            # A FIFO must not block, and a device must not be opened.
            if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise FileNotFoundError(name)
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                yield fd
            finally:
                os.close(fd)

    @contextmanager
    def _opened_parent(
        self, path: PathParts, follow_last: bool = False
    ) -> Iterator[tuple[int, str]]:
        """Yield the directory of an existing entry, and its name there; "." is the root itself."""
        if not path:
            yield self._root, "."
            return
        for _ in range(LINKS_MAX):
            with self._parent(path) as (parent, name):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if not (follow_last and stat.S_ISLNK(found.st_mode)):
                    yield parent, name
                    return
                path = self._resolved(path, os.readlink(name, dir_fd=parent))
        raise _error(path, "too many links")

    def _resolved(self, path: PathParts, target: str) -> PathParts:
        """Return the target of a link at *path*, whose own links are not resolved."""
        if self._links is LinkPolicy.REFUSE:
            raise _error(path, "a symbolic link")
        parts = [] if target.startswith("/") else list(path[:-1])
        return (*parts, *target.split("/"))

    @contextmanager
    def _parent(self, path: PathParts, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the open directory of a name; *make*: create missing directories."""
        if not path:
            raise ArchiveError("the root of an archive is not a file")
        with self._directory(path[:-1], make) as fd:
            if path[-1] in ("", ".", ".."):  # only from the target of a link
                raise FileNotFoundError(path[-1])
            yield fd, path[-1]

    @contextmanager
    def _directory(self, path: PathParts, make: bool = False) -> Iterator[int]:
        """Walk down from the root; one descriptor is open at a time."""
        walk = _Walk(self._root, self._budget)
        try:
            todo = deque(path)
            for _ in range(STEPS_MAX):
                if not todo:
                    break
                name = todo.popleft()
                target = walk.step(name, make, path)
                if target is not None:
                    if self._links is LinkPolicy.REFUSE:
                        raise _error(path, "goes through a symbolic link")
                    if target.startswith("/"):
                        walk.restart()
                    todo.extendleft(reversed(target.split("/")))
            if todo:
                raise _error(path, "too many links")
            yield walk.fd
        finally:
            walk.close()


class _Walk:
    """A position in a tree, never above its root."""

    def __init__(self, root: int, budget: Budget) -> None:
        self._root = root
        self._budget = budget
        self._depth = 0
        self.fd = os.dup(root)

    def close(self) -> None:
        os.close(self.fd)

    def restart(self) -> None:
        self._enter(os.dup(self._root), 0)

    def step(self, name: str, make: bool, path: PathParts) -> str | None:
        """Enter a directory; for a symbolic link stay and return its target."""
        if name in ("", "."):
            return None
        if name == "..":  # only from the target of a link; above the root is the root
            if self._depth:
                # No link leads here, so this is the directory that was entered from.
                self._enter(os.open("..", _DIRECTORY, dir_fd=self.fd), self._depth - 1)
            return None
        if self._depth >= DEPTH_MAX:
            raise _error(path, "nested too many directories deep")
        found = _lstat(self.fd, name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            return os.readlink(name, dir_fd=self.fd)
        if make and found is None:
            self._budget.charge_entry(BLOCK_BYTES)
            os.mkdir(name, 0o755, dir_fd=self.fd)
        elif make and found is not None and not stat.S_ISDIR(found.st_mode):
            raise _error(path, "goes through a file")
        self._enter(os.open(name, _DIRECTORY, dir_fd=self.fd), self._depth + 1)
        return None

    def _enter(self, fd: int, depth: int) -> None:
        os.close(self.fd)
        self.fd, self._depth = fd, depth


def _error(path: PathParts, what: str) -> ArchiveError:
    return ArchiveError(f"{shown('/'.join(path))}: {what}")


def leads_outside(root: Path, link: PathParts) -> bool:
    """Whether a symbolic link in a complete tree leads out of it, through any other links.

    A missing component counts as a directory: it could be created later.
    """
    todo = deque(os.readlink(root.joinpath(*link)).split("/"))
    if todo[0] == "":
        return True  # absolute
    at = list(link[:-1])
    for _ in range(STEPS_MAX):
        if not todo:
            return False
        name = todo.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            if not at:
                return True
            at.pop()
            continue
        here = root.joinpath(*at, name)
        if here.is_symlink():
            target = os.readlink(here)
            if target.startswith("/"):
                return True
            todo.extendleft(reversed(target.split("/")))
        else:
            at.append(name)
    return True  # a loop, which cannot be followed


def _lstat(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _remove_at(parent: int, name: str) -> None:
    found = _lstat(parent, name)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]

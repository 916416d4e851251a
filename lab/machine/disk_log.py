# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The record that QEMU's blklogwrites keeps of a disk: parsed to the last valid entry.

The form is that of Linux' dm-log-writes: a superblock of one sector, then for each write, flush or
discard one sector that says what it is, followed by the data of a write. QEMU was killed while it
wrote it, and the guest chose what is in it, so nothing in it is believed before it is checked.

Invariant: for no bytes does parsing read outside the file, loop, or raise but DiskLogError.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError

MAGIC = 0x6A736677736872
VERSION = 1
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
SECTOR_BYTES = 512  # QEMU's default; a superblock that says another is refused
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
FLAGS = FLUSH | FUA | DISCARD | MARK


class DiskLogError(InfraError):
    """A record from which the disk's content cannot be told."""


@dataclass(frozen=True)
class Entry:
    """One thing that the disk was told and had answered."""

    offset_bytes: int
    bytes: int
    flags: int
    data_at: int  # in the record

    @property
    def is_write(self) -> bool:
        return not self.flags & (FLUSH | DISCARD | MARK) and self.bytes > 0


@dataclass
class Parsed:
    """What came of parsing, besides the entries."""

    entries: int = 0
    holes: int = 0  # entries whose place was taken and that QEMU had no time to write


class DiskLog:
    """A record in a file; entries are read on the way, so that its size does not matter."""

    def __init__(self, path: Path, disk_bytes: int, limit_bytes: int | None = None) -> None:
        """*limit_bytes*: what of the record there was at some moment."""
        self._path = path
        self._disk_bytes = disk_bytes
        self._file = path.open("rb")
        size = path.stat().st_size
        if limit_bytes is not None:
            size = min(size, limit_bytes)
        self._map = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        self.parsed = Parsed()

    def close(self) -> None:
        if isinstance(self._map, mmap.mmap):
            self._map.close()
        self._file.close()

    def __enter__(self) -> DiskLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def data(self, entry: Entry) -> bytes:
        return bytes(self._map[entry.data_at : entry.data_at + entry.bytes])

    def _check_super(self) -> None:
        """A superblock is written with the first entry; a record without one is empty."""
        if len(self._map) < SECTOR_BYTES or not any(self._map[: SUPER.size]):
            return
        magic, version, _, sector_bytes = SUPER.unpack_from(self._map)
        if (magic, version, sector_bytes) != (MAGIC, VERSION, SECTOR_BYTES):
            raise DiskLogError(
                f"{self._path} is no record of a disk (magic {magic:#x}, version {version}, "
                f"sectors of {sector_bytes}): remove the machine with `rem rm`"
            )

    def _skip_hole(self, at: int) -> int | None:
        """From a sector of zeros to the next that is not: an entry's place, never written.

        Its request had not been answered, so it may be taken for lost.
        """
        end = len(self._map) - len(self._map) % SECTOR_BYTES
        while at < end:
            if self._map[at : at + SECTOR_BYTES].count(0) != SECTOR_BYTES:
                return at
            at += SECTOR_BYTES
        return None

    def entries(self) -> Iterator[Entry]:
        """In the order in which the disk answered."""
        self._check_super()
        at: int | None = SECTOR_BYTES
        while at is not None and at + SECTOR_BYTES <= len(self._map):
            if self._map[at : at + SECTOR_BYTES].count(0) == SECTOR_BYTES:
                at = self._skip_hole(at)
                self.parsed.holes += at is not None
                continue
            sector, sectors, flags, _ = ENTRY.unpack_from(self._map, at)
            entry = Entry(sector * SECTOR_BYTES, sectors * SECTOR_BYTES, flags, at + SECTOR_BYTES)
            self._check(entry, at)
            at = entry.data_at + (0 if flags & DISCARD else entry.bytes)
            if at > len(self._map) and entry.is_write:
                return  # cut off: its request had not been answered
            self.parsed.entries += 1
            yield entry

    def _check(self, entry: Entry, at: int) -> None:
        padding = self._map[at + ENTRY.size : at + SECTOR_BYTES]
        outside = entry.offset_bytes + entry.bytes > self._disk_bytes
        if entry.flags & ~FLAGS or outside or padding.count(0) != len(padding):
            raise DiskLogError(
                f"{self._path}: entry {self.parsed.entries} at byte {at} makes no sense: "
                "the disk cannot be told; remove the machine with `rem rm`"
            )

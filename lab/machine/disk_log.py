# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The log that QEMU's blklogwrites keeps of a disk, parsed to the last valid entry.

The format is that of Linux' dm-log-writes: a superblock of one sector, then for each write, flush
or discard one sector that describes it, followed by the data of a write. QEMU was killed while it
wrote the log, and the guest chose its content, so nothing in it is trusted before it is checked.

Invariant: for any bytes parsing stays inside the file, ends, and raises nothing but DiskLogError.
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
SECTOR_BYTES = 512  # QEMU's default; a superblock with another size is refused
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
FLAGS = FLUSH | FUA | DISCARD | MARK


class DiskLogError(InfraError):
    """A log from which the disk's content cannot be derived."""


@dataclass(frozen=True)
class Entry:
    """One request that the disk had answered."""

    offset_bytes: int
    bytes: int
    flags: int
    data_at: int  # in the log

    @property
    def is_write(self) -> bool:
        return not self.flags & (FLUSH | DISCARD | MARK) and self.bytes > 0


@dataclass
class Parsed:
    """Results of parsing, besides the entries."""

    entries: int = 0
    holes: int = 0  # entries whose place was reserved and that QEMU had no time to write


class DiskLog:
    """A log in a file; entries are read one by one, so that its size does not matter."""

    def __init__(self, path: Path, disk_bytes: int, limit_bytes: int | None = None) -> None:
        """*limit_bytes*: the size of the log at some moment."""
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
        """A superblock is written with the first entry; a log without one is empty."""
        if len(self._map) < SECTOR_BYTES or not any(self._map[: SUPER.size]):
            return
        magic, version, _, sector_bytes = SUPER.unpack_from(self._map)
        if (magic, version, sector_bytes) != (MAGIC, VERSION, SECTOR_BYTES):
            raise DiskLogError(
                f"{self._path} is no log of a disk (magic {magic:#x}, version {version}, "
                f"sectors of {sector_bytes}): remove the machine with `rem rm`"
            )

    def _skip_hole(self, at: int) -> int | None:
        """From a sector of zeros to the next other one: an entry's place that was never written.

        Its request had not been answered, so it may count as lost.
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
                "the disk's content is unknown; remove the machine with `rem rm`"
            )

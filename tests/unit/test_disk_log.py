# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A disk with a volatile cache: which of its writes reach media, and that no log can do harm.

Logs are made here byte by byte, in the format of Linux' dm-log-writes, and truncated, damaged or
random; tests/hardware/test_disk_cache.py uses QEMU's own.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lab.machine import disks
from lab.machine.disk_log import (
    DISCARD,
    ENTRY,
    FLUSH,
    FUA,
    MAGIC,
    SECTOR_BYTES,
    SUPER,
    VERSION,
    DiskLog,
    DiskLogError,
)

DISK_SECTORS = 64


def sector(fill: int) -> bytes:
    return bytes([fill]) * SECTOR_BYTES


def entry(at: int, sectors: int, flags: int = 0, data: bytes = b"") -> bytes:
    return ENTRY.pack(at, sectors, flags, 0).ljust(SECTOR_BYTES, b"\0") + data


def write(at: int, fill: int, sectors: int = 1, flags: int = 0) -> bytes:
    return entry(at, sectors, flags, sector(fill) * sectors)


FLUSHED = entry(0, 0, FLUSH)


def record(*entries: bytes) -> bytes:
    head = SUPER.pack(MAGIC, VERSION, len(entries), SECTOR_BYTES).ljust(SECTOR_BYTES, b"\0")
    return head + b"".join(entries)


def disk(tmp_path: Path, log: bytes) -> disks.DiskFiles:
    files = disks.DiskFiles(tmp_path / "media", tmp_path / "overlay", tmp_path / "log")
    files.media.write_bytes(sector(0xEE) * DISK_SECTORS)
    files.log.write_bytes(log)
    return files


def media(files: disks.DiskFiles) -> list[int]:
    """One byte per sector, as each sector has one repeated byte here."""
    data = files.media.read_bytes()
    assert len(data) == DISK_SECTORS * SECTOR_BYTES
    return [data[at] for at in range(0, len(data), SECTOR_BYTES)]


def test_log_written_by_qemu_is_read(tmp_path: Path) -> None:
    """The other reader of such logs, machine/campaign/src/disk.rs, reads the same file."""
    log = Path(__file__).with_name("qemu_disk_log.bin").read_bytes()
    files = disk(tmp_path, log[: 7 * SECTOR_BYTES])
    assert disks.settle(files) == disks.Settled(2, 1, 1, SECTOR_BYTES)
    assert media(files)[:3] == [0xEE, 1, 0xEE]
    files = disk(tmp_path, log)
    assert disks.settle(files) == disks.Settled(writes=2, flushes=3)
    assert media(files)[:4] == [0xEE, 1, 2, 0xEE]


def test_only_flushed_writes_are_on_media(tmp_path: Path) -> None:
    files = disk(tmp_path, record(write(0, 1), write(1, 2), FLUSHED, write(1, 3), write(2, 4)))
    settled = disks.settle(files)
    assert settled is not None
    assert media(files)[:4] == [1, 2, 0xEE, 0xEE]
    assert (settled.writes, settled.flushes) == (4, 1)
    assert (settled.lost_writes, settled.lost_bytes) == (2, 2 * SECTOR_BYTES)
    assert not files.log.exists()
    assert disks.settle(files) is None


def test_fua_write_needs_no_flush_and_keeps_its_place_among_others(tmp_path: Path) -> None:
    files = disk(tmp_path, record(write(0, 1), write(0, 2, flags=FUA), write(1, 3)))
    settled = disks.settle(files)
    assert settled is not None
    assert media(files)[:2] == [2, 0xEE]
    later = disk(tmp_path, record(write(0, 2, flags=FUA), write(0, 1), FLUSHED))
    disks.settle(later)
    assert media(later)[0] == 1, "the write that came last was flushed"


def test_discards_and_marks_change_nothing(tmp_path: Path) -> None:
    files = disk(tmp_path, record(write(3, 5), entry(0, 8, DISCARD), FLUSHED))
    disks.settle(files)
    assert media(files)[3] == 5
    assert media(files)[0] == 0xEE


def test_settling_twice_is_settling_once(tmp_path: Path) -> None:
    log = record(write(0, 1), FLUSHED, write(0, 2), write(5, 6), FLUSHED, write(0, 9))
    files = disk(tmp_path, log)
    disks.settle(files, "some", 7)
    once = media(files)
    files.log.write_bytes(log)  # the process was killed before it removed the log
    disks.settle(files, "some", 7)
    assert media(files) == once


def test_some_tears_a_write_by_sectors_and_by_seed(tmp_path: Path) -> None:
    def outcome(seed: int) -> tuple[int, ...]:
        files = disk(tmp_path, record(write(0, 7, sectors=16)))
        disks.settle(files, "some", seed)
        return tuple(media(files)[:16])

    seen = {outcome(seed) for seed in range(8)}
    assert len(seen) > 4
    assert all(set(found) <= {7, 0xEE} for found in seen)
    assert outcome(3) == outcome(3)


def test_hole_is_a_write_that_was_not_answered(tmp_path: Path) -> None:
    """QEMU reserves an entry's place, then writes it; killed in between it leaves zeros."""
    hole = bytes(3 * SECTOR_BYTES)
    files = disk(tmp_path, record(write(0, 1), hole, FLUSHED, write(1, 2)))
    settled = disks.settle(files)
    assert settled is not None
    assert settled.holes == 1
    assert media(files)[:2] == [1, 0xEE]


def test_every_truncation_is_a_prefix(tmp_path: Path) -> None:
    log = record(write(0, 1), FLUSHED, write(1, 2, sectors=2), FLUSHED)
    for length in range(0, len(log) + 1, 64):
        files = disk(tmp_path, log[:length])
        assert disks.settle(files) is not None
        whole = length >= len(log)
        flushed_once = length >= 4 * SECTOR_BYTES
        assert media(files)[:3] == [1 if flushed_once else 0xEE, *([2, 2] if whole else [0xEE] * 2)]


@pytest.mark.parametrize(
    "bad",
    [
        entry(DISK_SECTORS, 1),
        entry(0, DISK_SECTORS + 1),
        entry(1 << 63, 1 << 63),
        entry(0, 1, 1 << 7),
        ENTRY.pack(0, 1, 0, 0).ljust(SECTOR_BYTES, b"x"),
        bytes(ENTRY.size).ljust(SECTOR_BYTES, b"x"),
    ],
)
def test_damaged_entry_is_refused_with_all_after_it(tmp_path: Path, bad: bytes) -> None:
    files = disk(tmp_path, record(write(0, 1), FLUSHED, bad + sector(9)))
    with pytest.raises(DiskLogError, match="makes no sense"):
        disks.settle(files)
    assert files.log.exists(), "the log is kept for inspection"


def test_another_file_is_no_log(tmp_path: Path) -> None:
    for head in (b"QFI\xfb" * 200, SUPER.pack(MAGIC, 2, 0, 512).ljust(1024, b"\1")):
        with pytest.raises(DiskLogError, match="no log"):
            disks.settle(disk(tmp_path, head))


def test_random_damage_is_an_error_or_a_disk_of_the_same_size(tmp_path: Path) -> None:
    choice = random.Random(4)
    good = record(write(0, 1), FLUSHED, write(9, 2, sectors=4), FLUSHED, write(3, 3))
    refused = 0
    for _ in range(2000):
        damaged = bytearray(good)
        for _ in range(choice.randint(1, 8)):
            damaged[choice.randrange(len(damaged))] = choice.randrange(256)
        path = tmp_path / "log"
        path.write_bytes(damaged)
        try:
            with DiskLog(path, DISK_SECTORS * SECTOR_BYTES) as log:
                for one in log.entries():
                    assert one.offset_bytes + one.bytes <= DISK_SECTORS * SECTOR_BYTES
                    if one.is_write:
                        assert len(log.data(one)) == one.bytes
        except DiskLogError:
            refused += 1
    assert 0 < refused < 2000


def test_empty_log_is_an_unused_disk(tmp_path: Path) -> None:
    settled = disks.settle(disk(tmp_path, b""))
    assert settled == disks.Settled()

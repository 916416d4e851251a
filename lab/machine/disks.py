# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Disks with a write cache that survives a loss of power, and disks with one that does not.

    protected   QEMU writes to disk.img: everything it accepted is there after a cut
    volatile    disk.img is the media. QEMU writes to an overlay (the cache, and what it has put on
                media since) and logs each write and flush. After the power failed, the log is
                replayed: what a flush had covered goes to disk.img, the rest is lost

A disk whose cache is off flushes after each write. QEMU does that flush itself, and skips it
if it knows of no write since the last one; it counts a write only after that flush. So the node
that keeps the log is not the uppermost one: the node above it counts writes by itself, and the log
has every flush.

Which of the writes without a flush are lost is a property of the disk: `all` of them, or sectors
chosen by a seed (`some`), which tears writes and may keep newer writes than it loses.

Invariants: disk.img of a volatile disk changes only while no QEMU runs; a replay is idempotent, so
one that is interrupted is repeated at the next power-on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lab.errors import InfraError
from lab.machine.disk_log import FLUSH, FUA, SECTOR_BYTES, DiskLog, Entry
from lab.run import run

DiskCache = Literal["protected", "volatile"]
DiskLoss = Literal["all", "some"]
DISK_CACHES: tuple[str, ...] = get_args(DiskCache)
DISK_LOSSES: tuple[str, ...] = get_args(DiskLoss)
# Sectors are chosen one by one, so `some` is limited to what a real cache holds.
SOME_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class DiskFiles:
    """Of one disk."""

    media: Path
    overlay: Path
    log: Path


@dataclass
class Settled:
    """The effect of a loss of power on a disk."""

    writes: int = 0
    flushes: int = 0
    lost_writes: int = 0  # had been answered, and are not on media, or not whole
    lost_bytes: int = 0
    holes: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def power_on(files: DiskFiles) -> None:
    """Make an empty overlay and an empty log; those of an earlier power-on have been settled."""
    for path in (files.overlay, files.log):
        path.unlink(missing_ok=True)
    size = files.media.stat().st_size
    run(
        ["qemu-img", "create", "-q", "-f", "qcow2", files.overlay, str(size)],
        what="making the disk's overlay",
    )
    for path in (files.overlay, files.log):
        path.touch(mode=0o600)
        path.chmod(0o600)


def blockdevs(files: DiskFiles, quoted: Any) -> list[str]:
    """QEMU's nodes; the uppermost is `rem-disk`. Below the log no flush needs to reach the host.

    What is on the host's own disk matters only if the host loses its power.
    """
    record = "driver=blklogwrites,node-name=rem-logged,file=rem-cache,log=rem-log"
    nodes = (
        f"driver=file,node-name=rem-media,read-only=on,filename={quoted(files.media)}",
        "driver=raw,node-name=rem-media-raw,read-only=on,file=rem-media",
        f"driver=file,node-name=rem-cache-file,cache.no-flush=on,filename={quoted(files.overlay)}",
        "driver=qcow2,node-name=rem-cache,cache.no-flush=on,file=rem-cache-file,"
        "backing=rem-media-raw",
        f"driver=file,node-name=rem-log,cache.no-flush=on,filename={quoted(files.log)}",
        f"{record},log-super-update-interval=1",
        "driver=raw,node-name=rem-disk,file=rem-logged",
    )
    return [word for node in nodes for word in ("-blockdev", node)]


def settle(files: DiskFiles, loss: DiskLoss = "all", seed: int = 0) -> Settled | None:
    """After the power failed: bring disk.img to the state of the media. None: nothing to do."""
    if not files.log.exists():
        return None
    settled = apply_log(files.media, files.log, None, loss, seed)
    for path in (files.overlay, files.log):  # the log last: until then the replay is repeated
        path.unlink(missing_ok=True)
    return settled


def apply_log(
    disk: Path, record: Path, limit_bytes: int | None, loss: DiskLoss, seed: int
) -> Settled:
    """Bring a disk to the state of its media when so much of its log had been written."""
    settled = Settled()
    with (
        DiskLog(record, disk.stat().st_size, limit_bytes) as log,
        disk.open("r+b") as media,
    ):
        pending: list[Entry] = []
        for entry in log.entries():
            if entry.flags & FLUSH:
                settled.flushes += 1
                _write(log, media.fileno(), pending)
                pending.clear()
            if entry.is_write:
                settled.writes += 1
                pending.append(entry)
        _lose(log, media.fileno(), pending, loss, random.Random(seed), settled)
        settled.holes = log.parsed.holes
    return settled


def _write(log: DiskLog, media: int, entries: list[Entry]) -> None:
    for entry in entries:
        if os.pwrite(media, log.data(entry), entry.offset_bytes) != entry.bytes:
            raise InfraError("no space left for the disk's media: free some and resume again")


def _lose(
    log: DiskLog,
    media: int,
    pending: list[Entry],
    loss: DiskLoss,
    choice: random.Random,
    settled: Settled,
) -> None:
    """No further flush came. FUA writes are on media; of the others only what *loss* spares."""
    some = loss == "some" and sum(entry.bytes for entry in pending) <= SOME_BYTES_MAX
    for entry in pending:
        if entry.flags & FUA:
            _write(log, media, [entry])
            continue
        lost_bytes = 0
        for sector in _sectors(entry):
            if some and choice.getrandbits(1):
                _write(log, media, [sector])
            else:
                lost_bytes += sector.bytes
        settled.lost_writes += lost_bytes > 0
        settled.lost_bytes += lost_bytes


def _sectors(entry: Entry) -> Iterator[Entry]:
    for at in range(0, entry.bytes, SECTOR_BYTES):
        yield Entry(entry.offset_bytes + at, SECTOR_BYTES, entry.flags, entry.data_at + at)

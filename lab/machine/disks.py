# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A disk whose write cache dies with the power, beside one whose does not.

    protected   QEMU writes to disk.img: whatever it accepted is there after a cut
    volatile    disk.img is what is on media. QEMU writes to an overlay (the cache, and what it has
                put on media since) and records each write and flush. After the power went, the
                record is replayed: what a flush had covered goes to disk.img, the rest is lost

A disk whose cache is off flushes after each write. QEMU does that flush itself, and leaves it out
if it knows of no write since the last one; it counts a write only after that flush. So the node
that keeps the record is not the uppermost: one above it counts for itself, and the record has each
flush.

Which of the writes that no flush covered are lost is a property of the disk: `all` of them, or
sectors chosen by a seed (`some`), which tears writes and keeps newer ones than it loses.

Invariants: disk.img of a volatile disk changes only while no QEMU runs; replaying twice gives what
replaying once gives, so a replay that is interrupted is simply done again at the next power-on.
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
# Sectors are chosen one by one, so `some` looks at no more than a real cache holds.
SOME_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class DiskFiles:
    """Of one disk."""

    media: Path
    overlay: Path
    log: Path


@dataclass
class Settled:
    """What a loss of power did to a disk."""

    writes: int = 0
    flushes: int = 0
    lost_writes: int = 0  # had been answered, and are not on media, or not whole
    lost_bytes: int = 0
    holes: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def power_on(files: DiskFiles) -> None:
    """An empty overlay and an empty record; what a power-on before left has been settled."""
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
    """QEMU's nodes; the uppermost is `rem-disk`. Below the record no flush needs to reach the host.

    What is on the host's own disk matters only when the host loses its power.
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
    """After the power went: bring disk.img to what is on media. None: nothing to settle."""
    if not files.log.exists():
        return None
    settled = apply_log(files.media, files.log, None, loss, seed)
    for path in (files.overlay, files.log):  # the record last: until then it is done again
        path.unlink(missing_ok=True)
    return settled


def apply_log(
    disk: Path, record: Path, limit_bytes: int | None, loss: DiskLoss, seed: int
) -> Settled:
    """Bring a disk to what is on media when so much of its record had been written."""
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
    """No flush came any more. FUA writes are on media; of the others, what it lets be."""
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

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: changes files on a disk that logs its writes, and replays that log to any point.

    write_log.py run FOLDER SEED OPERATIONS NAME EACH   NAME: the device mapper's name of the disk;
                                       prints `ack op N`; EACH operations all is drained
    write_log.py check LOG BASE TYPE SEED OPERATIONS EACH [lacks=N]    prints JSON
                                       LOG: the log's device, BASE: what the disk was before;
                                       EACH flush of the log that is looked at

The log is that of the kernel's dm-log-writes (Documentation/admin-guide/device-mapper/
log-writes.rst): a write is in it when a flush has covered it, so what it has up to any flush is
what a disk has, at the least, after a loss of power then. `run` puts a mark behind each operation.

Each operation changes one file and then syncs it; each block that it writes has its number. So a
block may have the number that it had after the last operation that the disk has promised, or a
later one up to the operation that was under way. Where fsync ends in memory the disk promises only
what was drained. It uses nothing of the laboratory: Python 3.11 is enough.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

BLOCK = 4096
FILES = 4
BLOCKS_MAX = 24
MAGIC = 0x6A736677736872
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
STAMP = struct.Struct("<QQQ")  # of a block: operation, file, block
STATE = Path("/sys/kernel/remanence/persist/state")
KINDS = ["write"] * 6 + ["append"] * 3 + ["replace", "truncate"]
CHECKS = {"ext4": ["e2fsck", "-fn"], "xfs": ["xfs_repair", "-n"], "btrfs": ["btrfs", "check"]}


@dataclass(frozen=True)
class Operation:
    """One change of a file, and its sync."""

    number: int
    kind: str
    file: int
    blocks: tuple[int, ...]  # that it writes
    blocks_after: int  # of the file


@dataclass
class State:
    """Which operation has written each block of each file."""

    files: list[list[int]] = field(default_factory=lambda: [[] for _ in range(FILES)])

    def draw(self, seed: str, number: int) -> Operation:
        """The next operation."""
        draw = random.Random(f"{seed}/{number}")
        file = draw.randrange(FILES)
        size = len(self.files[file])
        kind = draw.choice(KINDS)
        if size < 2:
            kind = "append"
        elif kind == "append" and size > BLOCKS_MAX:
            kind = "truncate"
        blocks: list[int] = []
        if kind == "append":
            blocks = [*range(size, size + draw.randrange(1, 5))]
        elif kind == "write":
            blocks = sorted(draw.sample(range(size), draw.randrange(1, min(size, 6) + 1)))
        elif kind == "replace":
            blocks = [*range(draw.randrange(1, 9))]
        after = {"write": size, "truncate": draw.randrange(1, max(2, size))}
        return Operation(
            number, kind, file, tuple(blocks), after.get(kind, blocks[-1] + 1 if blocks else 0)
        )

    def apply(self, op: Operation) -> None:
        old = [] if op.kind == "replace" else self.files[op.file]
        new = (old + [0] * op.blocks_after)[: op.blocks_after]
        for block in op.blocks:
            new[block] = op.number
        self.files[op.file] = new


def states(seed: str, operations: int) -> Iterator[tuple[Operation | None, list[list[int]]]]:
    """After each operation, from none on."""
    state = State()
    yield None, [list(one) for one in state.files]
    for number in range(1, operations + 1):
        op = state.draw(seed, number)
        state.apply(op)
        yield op, [list(one) for one in state.files]


def block_of(op: Operation, block: int) -> bytes:
    head = STAMP.pack(op.number, op.file, block)
    return head + bytes([op.number & 0xFF, block & 0xFF]) * ((BLOCK - len(head)) // 2)


def perform(folder: Path, op: Operation) -> None:
    path = folder / str(op.file)
    to = path.with_suffix(".new") if op.kind == "replace" else path
    fd = os.open(to, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if op.kind == "replace" else 0), 0o640)
    for block in op.blocks:
        os.pwrite(fd, block_of(op, block), block * BLOCK)
    if op.kind == "truncate":
        os.ftruncate(fd, op.blocks_after * BLOCK)
    os.fsync(fd)
    os.close(fd)
    if op.kind == "replace":
        to.replace(path)
    if op.kind in ("replace", "append"):  # it may be new
        parent = os.open(folder, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)


def mark(name: str, text: str) -> None:
    """By the message of the target; dmsetup is not in the guest."""
    message = struct.pack("=Q", 0) + f"mark {text}".encode() + b"\0"
    head = struct.pack("=3I 3I i 3I Q 128s 129s 7x", 4, 0, 0, 8192, 312, 1, 0, 0, 0, 0, 0,
                       name.encode(), b"")  # fmt: skip
    with open("/dev/mapper/control", "rb", buffering=0) as control:
        fcntl.ioctl(
            control,
            3 << 30 | 312 << 16 | 0xFD << 8 | 14,
            bytearray((head + message).ljust(8192, b"\0")),
        )


def ends_in_memory() -> bool:
    """Whether an fsync may, so that it is no promise of the disk."""
    return STATE.exists() and STATE.read_text().strip() == "memory"


def drain() -> None:
    """Everything that was acknowledged goes to the disk."""
    if ends_in_memory():
        for word in ("disk", "memory"):
            STATE.write_text(word)
    else:
        os.sync()


def run(folder: Path, seed: str, operations: int, name: str, each: int) -> None:
    for op, _ in states(seed, operations):
        if op is None:
            continue
        mark(name, f"begin-{op.number}")
        perform(folder, op)
        mark(name, f"op-{op.number}")
        if op.number % each == 0 or op.number == operations:
            drain()
            mark(name, f"drained-{op.number}")
        print(f"ack op {op.number}", flush=True)


@dataclass(frozen=True)
class Entry:
    """One of the log."""

    offset_bytes: int
    count_bytes: int
    flags: int
    data: bytes  # of a write, or a mark's text


def entries(log: BinaryIO) -> Iterator[Entry]:
    """All of a log, in its order."""
    log.seek(0)
    magic, version, count, sector_bytes = SUPER.unpack(log.read(SUPER.size))
    if magic != MAGIC or version != 1:
        raise SystemExit(f"no log of writes: magic {magic:#x}, version {version}")
    at = sector_bytes
    for _ in range(count):
        log.seek(at)
        sector, sectors, flags, text_bytes = ENTRY.unpack(log.read(ENTRY.size))
        at += sector_bytes
        data = log.read(text_bytes) if flags & MARK else b""
        if sectors and not flags & (DISCARD | MARK):
            log.seek(at)
            data = log.read(sectors * sector_bytes)
            at += len(data)
        yield Entry(sector * sector_bytes, sectors * sector_bytes, flags, data)


def put(image: BinaryIO, entry: Entry) -> None:
    """A write that reaches the disk."""
    if entry.flags & DISCARD:
        for at in range(entry.offset_bytes, entry.offset_bytes + entry.count_bytes, 1 << 20):
            count = min(1 << 20, entry.offset_bytes + entry.count_bytes - at)
            image.seek(at)
            if image.read(count).strip(b"\0"):
                image.seek(at)
                image.write(bytes(count))
    elif entry.data and not entry.flags & MARK:
        image.seek(entry.offset_bytes)
        image.write(entry.data)


@dataclass
class Promised:
    """What a disk may have, by the marks so far."""

    durable: int = 0  # operations that the disk has promised
    begun: int = 0
    in_memory: bool = False  # what an fsync acknowledged is no promise of the disk

    def hear(self, text: str) -> bool:
        """A mark; whether the disk has to have all of it now."""
        word, _, number = text.rpartition("-")
        if word == "begin":
            self.begun = int(number)
        elif word == "drained" or (word == "op" and not self.in_memory):
            self.durable = int(number)
        return word == "drained"


def allowed(history: list[list[list[int]]], low: int, high: int, file: int) -> list[set[int]]:
    """Per block, the operations that it may be of; -1: it may not be there."""
    seen = [history[number][file] for number in range(low, high + 1)]
    most = max(len(one) for one in seen)
    may = [{one[at] if at < len(one) else -1 for one in seen} for at in range(most)]
    # What grows may have its size before its data.
    return [{*one, 0} if -1 in one else one for one in may]


def stamp_of(data: bytes, file: int, block: int) -> int:
    """The operation that a block is of; 0: zeros; -2: neither."""
    number, its_file, its_block = STAMP.unpack_from(data)
    if not data.strip(b"\0"):
        return 0
    op = Operation(number, "", file, (), 0)
    return number if data == block_of(op, block) and (its_file, its_block) == (file, block) else -2


def wrong_files(folder: Path, history: list[list[list[int]]], low: int, high: int) -> list[str]:
    found = []
    for file in range(FILES):
        may = allowed(history, low, high, file)
        path = folder / str(file)
        data = path.read_bytes() if path.exists() else b""
        blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
        for block in range(max(len(blocks), len(may))):
            there = -1
            if block < len(blocks):
                there = stamp_of(blocks[block].ljust(BLOCK, b"\0"), file, block)
            if there not in (may[block] if block < len(may) else {-1}):
                wanted = sorted(may[block]) if block < len(may) else "nothing"
                found.append(f"file {file} block {block} is of {there}, not of {wanted}")
    return found


def done(*words: str) -> str:
    """Run it; its output if it fails."""
    ran = subprocess.run(words, capture_output=True, text=True)
    return "" if ran.returncode == 0 else f"{' '.join(words)}: {ran.stdout}{ran.stderr}"[-1500:]


def look(image: Path, kind: str, check: Callable[[Path], list[str]]) -> list[str]:
    """A copy of the disk, as its next user finds it: recovered, read, and checked."""
    copy, folder = image.with_suffix(".copy"), image.with_suffix(".mounted")
    folder.mkdir(exist_ok=True)
    found = [done("cp", "--sparse=always", str(image), str(copy))]
    loop = subprocess.run(
        ["losetup", "-f", "--show", str(copy)], capture_output=True, text=True, check=True
    ).stdout.strip()
    failed = done("mount", "-t", kind, loop, str(folder))
    if not failed:
        try:
            found += check(folder)
        except OSError as error:  # it is damaged, or its kernel has shut it down
            found.append(f"a file cannot be read: {error}")
        failed = done("umount", str(folder))
    found += [failed, done("losetup", "-d", loop)]
    found.append(done(*CHECKS[kind], *(["-f"] if kind == "xfs" else []), str(copy)))
    copy.unlink()
    return [line for line in found if line]


@dataclass
class Replay:
    """A disk that gets what a log has, and what is wrong with it at the points looked at."""

    image: Path
    kind: str
    history: list[list[list[int]]]
    promised: Promised
    each: int  # flushes
    lacks: int  # of so many writes one is left out
    points: int = 0
    flushes: int = 0
    writes: int = 0
    wrong: list[str] = field(default_factory=list)

    def take(self, disk: BinaryIO, entry: Entry) -> bool:
        """The next entry; whether the disk is to be looked at then."""
        if entry.flags & MARK:
            return self.promised.hear(entry.data.rstrip(b"\0").decode())
        self.writes += bool(entry.data)
        if not (entry.data and self.lacks and self.writes % self.lacks == 0):
            put(disk, entry)
        self.flushes += bool(entry.flags & FLUSH)
        return bool(entry.flags & FLUSH) and self.flushes % self.each == 0

    def look(self, number: int) -> None:
        low, high = self.promised.durable, self.promised.begun
        if not high:
            return
        self.points += 1
        found = look(self.image, self.kind, lambda at: wrong_files(at, self.history, low, high))
        self.wrong += [f"entry {number}, operations {low} to {high}: {line}" for line in found]

    def all_of(self, log: BinaryIO) -> dict[str, object]:
        with self.image.open("r+b", buffering=0) as disk:
            for number, entry in enumerate(entries(log)):
                if self.take(disk, entry):
                    self.look(number)
        return {
            "points": self.points,
            "flushes": self.flushes,
            "writes": self.writes,
            "durable": self.promised.durable,
            "wrong": self.wrong[:20],
        }


def check(words: list[str]) -> dict[str, object]:
    log, given, kind, seed, operations, each, *more = words
    base = Path(given)
    image = base.with_suffix(".replayed")
    subprocess.run(["cp", "--sparse=always", str(base), str(image)], check=True)
    replay = Replay(
        image,
        kind,
        [state for _, state in states(seed, int(operations))],
        Promised(in_memory=ends_in_memory()),
        int(each),
        int(more[0].removeprefix("lacks=")) if more else 0,
    )
    with Path(log).open("rb") as source:
        report = replay.all_of(source)
    image.unlink()
    return report


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "run":
        folder, seed, operations, name, each = words
        run(Path(folder), seed, int(operations), name, int(each))
        return
    print(json.dumps(check(words)))


if __name__ == "__main__":
    main()

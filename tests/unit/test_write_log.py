# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A log of writes is read as dm-log-writes writes it, and what a disk has promised is known."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lab.testbed import write_log
from lab.testbed.write_log import (
    BLOCK,
    DISCARD,
    ENTRY,
    FLUSH,
    MAGIC,
    MARK,
    SUPER,
    Promised,
    Replay,
    State,
    entries,
    perform,
    states,
    wrong_files,
)

SECTOR = 512


def log_of(*parts: tuple[int, int, int, bytes]) -> io.BytesIO:
    """Entries: sector, sectors, flags, data or text."""
    raw = SUPER.pack(MAGIC, 1, len(parts), SECTOR).ljust(SECTOR, b"\0")
    for sector, sectors, flags, data in parts:
        text = data if flags & MARK else b""
        head = ENTRY.pack(sector, sectors, flags, len(text)) + text
        raw += head.ljust(SECTOR, b"\0") + (b"" if flags & MARK else data)
    return io.BytesIO(raw)


def test_entries_are_found_one_after_the_other() -> None:
    log = log_of(
        (3, 2, 0, b"a" * 1024),
        (0, 0, MARK, b"op-1\0"),
        (0, 0, FLUSH, b""),
        (8, 16, DISCARD, b""),
        (4, 1, 2, b"b" * 512),
    )
    seen = [(one.offset_bytes, one.count_bytes, one.flags, one.data) for one in entries(log)]
    assert seen == [
        (1536, 1024, 0, b"a" * 1024),
        (0, 0, MARK, b"op-1\0"),
        (0, 0, FLUSH, b""),
        (4096, 8192, DISCARD, b""),
        (2048, 512, 2, b"b" * 512),
    ]


def test_something_else_than_a_log_is_refused() -> None:
    with pytest.raises(SystemExit, match="no log of writes"):
        list(entries(io.BytesIO(bytes(4096))))


def replay_of(tmp_path: Path, log: io.BytesIO, lacks: int = 0) -> tuple[bytes, Replay]:
    image = tmp_path / "image"
    image.write_bytes(b"." * 8192)
    replay = Replay(image, "ext4", [], Promised(), each=1, lacks=lacks)
    assert replay.all_of(log)["wrong"] == []
    return image.read_bytes(), replay


def test_replay_writes_what_the_log_has(tmp_path: Path) -> None:
    log = log_of((0, 1, 0, b"a" * 512), (1, 2, DISCARD, b""), (0, 0, FLUSH, b""))
    image, replay = replay_of(tmp_path, log)
    assert image == b"a" * 512 + bytes(1024) + b"." * (8192 - 1536)
    assert (replay.flushes, replay.writes, replay.points) == (1, 1, 0)


def test_replay_can_leave_writes_out(tmp_path: Path) -> None:
    log = log_of(*((number, 1, 0, b"a" * 512) for number in range(4)))
    assert replay_of(tmp_path, log, lacks=2)[0][:2048].count(b"a") == 1024


def test_a_disk_promises_what_was_drained_where_fsync_ends_in_memory() -> None:
    for in_memory, durable in ((True, 0), (False, 1)):
        promised = Promised(in_memory=in_memory)
        assert not promised.hear("begin-1") and not promised.hear("op-1")
        assert (promised.durable, promised.begun) == (durable, 1)
        assert not promised.hear("dm-log-writes-end")  # the kernel's own, when the log ends
        assert promised.hear("drained-1")
        assert promised.durable == 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As after sixty operations."""
    for op, _ in states("seed", 60):
        if op is not None:
            perform(tmp_path, op)
    return tmp_path


def history(operations: int) -> list[list[list[int]]]:
    return [state for _, state in states("seed", operations)]


def test_files_are_as_after_the_last_operation(folder: Path) -> None:
    assert wrong_files(folder, history(60), 60, 60) == []
    assert wrong_files(folder, history(70), 50, 70) == []


def test_lost_operations_are_found(folder: Path) -> None:
    assert wrong_files(folder, history(80), 75, 80) != []


def test_operations_that_never_began_are_found(folder: Path) -> None:
    assert wrong_files(folder, history(60), 40, 50) != []


def test_torn_block_is_found(folder: Path) -> None:
    state = history(60)[60]
    file = next(number for number in range(write_log.FILES) if state[number])
    with (folder / str(file)).open("r+b") as damaged:
        damaged.seek(BLOCK - 1)
        damaged.write(b"\0\1")
    assert any("is of -2" in line for line in wrong_files(folder, history(60), 0, 60))


def test_all_kinds_of_operations_come() -> None:
    state, kinds = State(), set()
    for number in range(1, 200):
        op = state.draw("seed", number)
        state.apply(op)
        kinds.add(op.kind)
    assert kinds == set(write_log.KINDS)

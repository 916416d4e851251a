# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The record's decoder finds what the loader would find in a block, and survives any bytes.

Method: a correct block from an independent builder (record_builder.py), read intact, then damaged
in one place after the other, then in random ones.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path

import pytest

import tests.support.record_builder as build
from lab import format as fmt
from lab.errors import RemError
from lab.record.block import decode, read_block
from lab.record.boot_note import DescEntry
from lab.record.timeline import chrome_trace, timeline_of
from lab.report.record_text import describe


def test_whole_block() -> None:
    record = decode(bytes(build.make_block()))
    assert record.problems == ()
    assert record.region_bytes == build.REGION_BYTES
    assert record.consumed.sequence == 6
    assert [slot.state for slot in record.slots] == ["none", "ready"]
    slot = record.slots[1]
    assert record.newest is slot
    assert slot.body is not None and slot.body.stop_mode == "FAST"
    assert [entry.type for entry in slot.body.entries] == ["CPU_COUNT", "CPU"]
    assert slot.body.entries == record.machine
    assert record.note is not None and record.note.reason == "COLD_NOT_COMMITTED"


@pytest.mark.parametrize(("consumed", "state"), [(6, "ready"), (7, "consumed"), (9, "consumed")])
def test_image_is_ready_until_it_is_consumed(consumed: int, state: str) -> None:
    assert decode(bytes(build.make_block((7,), consumed))).slots[1].state == state


def test_two_slots_hold_two_stops() -> None:
    record = decode(bytes(build.make_block((7, 8), 7)))
    assert [slot.state for slot in record.slots] == ["ready", "consumed"]
    assert record.newest is record.slots[0]


def test_every_byte_of_the_body_is_covered_by_the_commit_word() -> None:
    size = len(build.body(7))
    for offset in range(size):
        block = build.make_block()
        block[build.body_at(1) + offset] ^= 0x10
        record = decode(bytes(block))
        assert record.slots[1].state == "damaged", offset
        assert record.problems, offset


def test_every_bit_of_the_words() -> None:
    for at in (build.commit_at(1), build.CONST["REM_CONSUMED_OFFSET"]):
        for bit in range(64):
            block = build.make_block()
            block[at + bit // 8] ^= 1 << bit % 8
            record = decode(bytes(block))
            assert record.slots[1].state not in {"ready", "consumed"}, (at, bit)
            assert record.problems


def test_image_in_the_wrong_slot_is_reported() -> None:
    block = build.make_block()
    here, there = build.body_at(1), build.body_at(0)
    block[there : there + 0x1000] = block[here : here + 0x1000]
    here, there = build.commit_at(1), build.commit_at(0)
    block[there : there + 8] = block[here : here + 8]
    assert any("slot 0: sequence 7 does not belong" in p for p in decode(bytes(block)).problems)


def test_zeros_ones_and_short_blocks_decode() -> None:
    size = build.CONST["REM_BLOCK_BYTES"]
    for block in (bytes(size), b"\xff" * size, b"", b"\xff" * 100):
        record = decode(block)
        assert record.region_bytes is None and record.newest is None
        assert all(slot.state in {"none", "damaged"} for slot in record.slots)
        assert record.problems


def test_events_that_do_not_count_are_left_out() -> None:
    block = build.make_block()
    at = build.event_at(1, 1)
    block[at + 9] ^= 1
    old = build.event(5, "STOP_FREEZE", 0, 1, 0)
    block[build.event_at(1, 20) : build.event_at(1, 20) + len(old)] = old
    types = [event.type for event in decode(bytes(block)).slots[1].timeline]
    assert "STOP_PARKED" not in types and "STOP_FREEZE" not in types
    assert types[0] == "STOP_BEGIN" and types[-1] == "GO_DONE"


def test_stop_that_did_not_commit_still_has_its_timeline() -> None:
    block = build.make_block()
    block[build.commit_at(1) : build.commit_at(1) + 8] = bytes(8)
    record = decode(bytes(block))
    assert record.slots[1].state == "none" and not record.slots[1].problems
    assert record.slots[1].timeline_sequence == 7
    assert record.newest is record.slots[1]


def test_spans_of_stop_and_go() -> None:
    timeline = timeline_of(decode(bytes(build.make_block())).slots[1])
    assert timeline is not None
    assert (timeline.stop_ns, timeline.loader_ns, timeline.go_ns) == (300_000, 310_000, 1_000_000)
    spans = {(span.name, span.cpu): (span.begin_ns, span.end_ns) for span in timeline.spans}
    assert spans["park CPUs", 0] == (0, 200_000)
    assert spans["save context", 0] == (200_000, 210_000)
    assert spans["park and save", 1] == (0, 150_000)
    assert spans["come back", 1] == (330_000, 500_000)
    control = [s for s in timeline.spans if s.control and s.part == "go"]
    assert [s.begin_ns for s in control[1:]] == [s.end_ns for s in control[:-1]]


@pytest.mark.parametrize("reported", [0, build.CONST["REM_EVENT_REPORTED"]])
def test_cpu_because_of_which_go_was_reset_is_shown(reported: int) -> None:
    """Also once the loader has marked the event."""
    block = build.make_block()
    for number, (kind, cpu) in enumerate((("GO_CPU_LOST", 3), ("GO_MICROCODE", 0), ("GO_TSC", 5))):
        raw = build.event(7, kind, 0, 900_000 + number, cpu | reported)
        at = build.event_at(1, build.CONST["REM_EVENTS_GO"] + 40 + number)
        block[at : at + len(raw)] = raw
    timeline = timeline_of(decode(bytes(block)).slots[1])
    assert timeline is not None
    names = [span.name for span in timeline.spans]
    assert {"LOST CPU 3", "OLDER MICROCODE ON CPU 0", "OTHER TSC ON CPU 5"} <= set(names)


def test_range_that_is_to_have_a_block_has_none_yet() -> None:
    block = build.make_block()
    block[:64] = (fmt.HEADER_DIR / "golden" / "range_stamp.bin").read_bytes()
    assert "no block: no kernel of ours has run here" in decode(bytes(block)).problems


@pytest.mark.parametrize(
    ("count", "nonce", "text"),
    [
        (0, 0, "0x00100000000-0x0013fffffff NVRAM"),
        (3, 0x99, "0x00100000000-0x0013fffffff NVRAM, stamp 3 (0x99)"),
        (
            0,
            build.CONST["REM_BLOCK_MAGIC"],
            "0x00100000000-0x0013fffffff NVRAM, with a record block",
        ),
    ],
)
def test_range_that_another_kernel_has_used_is_told_apart(
    count: int, nonce: int, text: str
) -> None:
    entry = DescEntry("MEMORY", 0, 0, (1 << 32, 1 << 30, 7, count, nonce))
    assert describe(entry) == text


def test_trace_is_one_that_viewers_take() -> None:
    timeline = timeline_of(decode(bytes(build.make_block())).slots[1])
    assert timeline is not None
    trace = json.loads(json.dumps(chrome_trace(timeline)))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    go = min(event["ts"] for event in spans if event["cat"] == "go")
    assert go >= max(event["ts"] + event["dur"] for event in spans if event["cat"] == "stop")


def test_no_bytes_make_it_fail() -> None:
    rng = random.Random(3)
    whole = bytes(build.make_block((7, 8), 6))
    interesting = [
        *range(64),
        *range(build.commit_at(0), build.commit_at(0) + 8),
        *range(build.body_at(0), build.body_at(0) + 400),
        *range(build.event_at(0, 0), build.event_at(0, 8)),
        *range(build.CONST["REM_NOTE_OFFSET"], build.CONST["REM_NOTE_OFFSET"] + 160),
        *range(build.CONST["REM_DESC_OFFSET"], build.CONST["REM_DESC_OFFSET"] + 200),
    ]
    for _ in range(60):
        block = bytearray(whole)
        for _ in range(rng.choice([1, 4, 40])):
            block[rng.choice(interesting)] = rng.choice([0, 0xFF, rng.randrange(256)])
        if rng.random() < 0.3:  # an impossible field, with a right checksum of the header
            _forge_header(block, rng)
        record = decode(bytes(block))
        json.dumps(asdict(record))
        for slot in record.slots:
            timeline = timeline_of(slot)
            if timeline is not None:
                json.dumps(chrome_trace(timeline))


def _forge_header(block: bytearray, rng: random.Random) -> None:
    at = build.body_at(0)
    fields = {
        "desc_offset": rng.choice([0, 0xFFFFFFFF, 255]),
        "desc_count": rng.choice([0, 512, 513, 0xFFFFFFFF]),
        "tsc_khz": rng.choice([0, 1, 2**64 - 1]),
        "stop_mode": 77,
    }
    view = fmt.parse("rem_body", bytes(block[at : at + 256]))
    for key, value in fields.items():
        setattr(view, key, value)
    view.body_bytes = rng.choice([0, 16, 256, 0x10000, 0xFFFFFFF0])
    raw = bytearray(view.dumps())
    crc = fmt.crc32c(bytes(raw[: build.CONST["REM_BODY_HEADER_CRC_BYTES"]]))
    raw[20:24] = crc.to_bytes(4, "little")
    block[at : at + 256] = raw


def test_file_that_is_too_short_is_one_line(tmp_path: Path) -> None:
    short = tmp_path / "nvram"
    short.write_bytes(bytes(4096))
    with pytest.raises(RemError, match="4096 bytes"):
        read_block(short)
    with pytest.raises(RemError, match="No such file"):
        read_block(tmp_path / "missing")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Blocks for tests of their readers: right in every byte, to be damaged by the test."""

from __future__ import annotations

from typing import Any

from lab import format as fmt

CONST = fmt.CONST
REGION_BYTES = 1 << 30
TSC_KHZ = 1_000_000  # 1 tick = 1 ns
STOP_EVENTS = (
    ("STOP_BEGIN", 0, 1_000_000, 1),
    ("STOP_PARKED", 0, 1_200_000, 3),
    ("STOP_CPU_SAVED", 1, 1_150_000, 0),
    ("STOP_CPU_SAVED", 0, 1_210_000, 0),
    ("STOP_BODY", 0, 1_300_000, 0),
)
LOADER_EVENTS = (
    ("LOADER_BEGIN", 0, 500_000, 0),
    ("LOADER_MACHINE", 0, 700_000, 0),
    ("LOADER_VERIFIED", 0, 800_000, 1),
    ("LOADER_CONSUMED", 0, 810_000, 0),
)
GO_EVENTS = (
    ("GO_BEGIN", 0, 830_000, 0),
    ("GO_CPU", 1, 1_000_000, 0),
    ("GO_DONE", 0, 1_500_000, 0),
)
ENTRIES = (("CPU_COUNT", 0, (2, 0, 0, 0, 0)), ("CPU", 0, (0, 0, 0, 0, 0)))


def struct(name: str, **fields: Any) -> bytes:
    """One struct; its other fields are zero."""
    view = getattr(fmt.VIEWS, name)(bytes(fmt.size_of(name)))
    for key, value in fields.items():
        setattr(view, key, value)
    return bytes(view.dumps())


def with_crc(name: str, **fields: Any) -> bytes:
    """The same with the checksum of everything before its field `crc`."""
    raw = struct(name, **fields)
    return struct(
        name, **fields, crc=fmt.crc32c(raw[: getattr(fmt.VIEWS, name).fields["crc"].offset])
    )


def word(sequence: int, check: int) -> bytes:
    return struct("rem_word", sequence=sequence, check=check)


def entries() -> bytes:
    return b"".join(
        struct("rem_desc_entry", type=fmt.DescType[kind], key=key, value=list(values))
        for kind, key, values in ENTRIES
    )


def body(sequence: int) -> bytes:
    size = CONST["REM_BODY_HEADER_BYTES"] + len(entries())
    fields = dict(
        magic=CONST["REM_BODY_MAGIC"], version=CONST["REM_VERSION"], body_bytes=size,
        sequence=sequence, stop_reason=1, stop_mode=2, region_phys=1 << 32,
        region_bytes=REGION_BYTES, cpu_count=2, desc_offset=CONST["REM_BODY_HEADER_BYTES"],
        desc_count=len(ENTRIES), tsc_khz=TSC_KHZ,
    )  # fmt: skip
    header = struct("rem_body", **fields)
    crc = fmt.crc32c(header[: CONST["REM_BODY_HEADER_CRC_BYTES"]])
    return struct("rem_body", **fields, header_crc=crc) + entries()


def event(sequence: int, kind: str, cpu: int, tsc: int, value: int) -> bytes:
    number = fmt.EventType[kind]
    return with_crc("rem_event", sequence=sequence, type=number, cpu=cpu, tsc=tsc, value=value)


def make_block(committed: tuple[int, ...] = (7,), consumed: int = 6) -> bytearray:
    """A block with committed images of these sequences, each with a complete timeline."""
    block = bytearray(CONST["REM_BLOCK_BYTES"])

    def put(at: int, raw: bytes) -> None:
        block[at : at + len(raw)] = raw

    put(0, with_crc("rem_block", magic=CONST["REM_BLOCK_MAGIC"], version=CONST["REM_VERSION"],
                    block_bytes=CONST["REM_BLOCK_BYTES"], region_bytes=REGION_BYTES))  # fmt: skip
    put(CONST["REM_CONSUMED_OFFSET"], word(consumed, fmt.consumed_check(consumed)))
    for sequence in committed:
        slot = sequence % CONST["REM_SLOTS"]
        raw = body(sequence)
        put(CONST["REM_BODY_OFFSET"] + slot * CONST["REM_BODY_STRIDE_BYTES"], raw)
        check = fmt.commit_check(sequence, fmt.crc32c(raw))
        put(commit_at(slot), word(sequence, check))
        for first, events in (
            (CONST["REM_EVENTS_STOP"], STOP_EVENTS),
            (CONST["REM_EVENTS_LOADER"], LOADER_EVENTS),
            (CONST["REM_EVENTS_GO"], GO_EVENTS),
        ):
            for n, values in enumerate(events):
                put(event_at(slot, first + n), event(sequence, *values))
    put(CONST["REM_DESC_OFFSET"],
        struct("rem_desc", magic=CONST["REM_DESC_MAGIC"], count=len(ENTRIES),
               crc=fmt.crc32c(entries())) + entries())  # fmt: skip
    put(CONST["REM_NOTE_OFFSET"],
        with_crc("rem_boot_note", magic=CONST["REM_NOTE_MAGIC"], version=CONST["REM_VERSION"],
                 reason=fmt.BootReason.COLD_NOT_COMMITTED))  # fmt: skip
    return block


def commit_at(slot: int) -> int:
    return int(CONST["REM_COMMIT_OFFSET"] + slot * CONST["REM_COMMIT_STRIDE_BYTES"])


def body_at(slot: int) -> int:
    return int(CONST["REM_BODY_OFFSET"] + slot * CONST["REM_BODY_STRIDE_BYTES"])


def event_at(slot: int, index: int) -> int:
    timeline = CONST["REM_TIMELINE_OFFSET"] + slot * CONST["REM_TIMELINE_STRIDE_BYTES"]
    return int(timeline + index * fmt.size_of("rem_event"))

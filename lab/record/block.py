# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The image record in NVRAM, decoded for people and programs; `rem inspect` shows it.

This reads the same bytes as the loader, but decides nothing. Its input is as hostile as the
loader's (a cut may leave anything), so decode() takes any bytes and never raises: errors are in
Record.problems, beside everything that could be read. The layout is format/rem_image.h.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from lab import format as fmt
from lab.errors import InfraError, RemError
from lab.record.boot_note import BootNote, DescEntry, read_boot_note

WORD_BYTES = 8
# More than any firmware has of the beginning of NVRAM.
FIRMWARE_BYTES_MAX = 16 << 20
# Plausible frequencies of counters: 1 MHz to 100 GHz.
TSC_KHZ_MIN, TSC_KHZ_MAX = 1_000, 100_000_000


@dataclass(frozen=True)
class Word:
    """The consumed word or a commit word."""

    raw: str  # hexadecimal, in the order of memory
    state: str  # "none" (all zeros), "valid" or "damaged"
    sequence: int | None  # None unless valid


@dataclass(frozen=True)
class Event:
    """One entry of a timeline."""

    type: str
    cpu: int
    tsc: int
    value: int
    part: str  # "stop", "loader" or "go"


@dataclass(frozen=True)
class Body:
    """The fields of struct rem_body that are of interest to people."""

    sequence: int
    stop_reason: str
    stop_mode: str
    body_bytes: int
    region_phys: int
    region_bytes: int
    entry_phys: int
    entry_cr3: int
    context_phys: int
    context_bytes: int
    cpu_count: int
    realtime_ns: int
    boottime_ns: int
    monotonic_ns: int
    tsc: int
    stop_begin_tsc: int
    tsc_khz: int
    build_id: str
    policy: str  # if the machine differs
    hold_s: int
    entries: tuple[DescEntry, ...]


@dataclass(frozen=True)
class Slot:
    """One of the two images."""

    index: int
    commit: Word
    state: str  # "none", "damaged", "consumed" or "ready": what the loader would find
    body: Body | None
    problems: tuple[str, ...]
    timeline_sequence: int | None
    timeline: tuple[Event, ...]


@dataclass(frozen=True)
class Record:
    """Everything in the block."""

    region_bytes: int | None  # None: there is no valid block header
    consumed: Word
    slots: tuple[Slot, ...]
    note: BootNote | None
    machine: tuple[DescEntry, ...]  # of this boot, as its loader saw it
    problems: tuple[str, ...] = field(default=())

    @property
    def newest(self) -> Slot | None:
        """The slot of the latest Stop that left a timeline or an image."""
        used = [slot for slot in self.slots if slot.timeline_sequence or slot.commit.sequence]
        return max(used, key=lambda s: s.commit.sequence or s.timeline_sequence or 0, default=None)


def _block_at(file: BinaryIO, size_bytes: int) -> int:
    align, need = fmt.CONST["REM_BLOCK_ALIGN_BYTES"], fmt.CONST["REM_BLOCK_BYTES"]
    for at in range(0, min(FIRMWARE_BYTES_MAX, size_bytes - need) + 1, align):
        file.seek(at)
        if int.from_bytes(file.read(8), "little") == fmt.CONST["REM_BLOCK_MAGIC"]:
            return at
    return 0


def read_block(path: Path) -> bytes:
    """The block's bytes from the file behind a machine's NVRAM (which may be in use).

    It is at the beginning, or behind what firmware has of the first few MiB.
    """
    need = fmt.CONST["REM_BLOCK_BYTES"]
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size < need:
                raise RemError(f"{path} is {size} bytes: an NVRAM has at least {need}")
            at = _block_at(file, size)
            with mmap.mmap(file.fileno(), need, prot=mmap.PROT_READ, offset=at) as block:
                return bytes(block)
    except OSError as error:
        raise InfraError(f"cannot read {path}: {error.strerror}") from error


def name_of(enum: Any, number: int) -> str:
    """The name of a number, which may be unknown to the enum."""
    try:
        return str(enum(number).name)
    except ValueError:
        return f"UNKNOWN_{number}"


def _word(raw: bytes, check: Any) -> Word:
    view = fmt.parse("rem_word", raw)
    if raw == bytes(WORD_BYTES):
        return Word(raw.hex(), "none", None)
    good = view.sequence != 0 and view.check == check(int(view.sequence))
    return Word(raw.hex(), "valid" if good else "damaged", int(view.sequence) if good else None)


def _entries(raw: bytes, count: int) -> tuple[DescEntry, ...]:
    """Entries of a machine description; *raw* is known to be long enough."""
    size = fmt.size_of("rem_desc_entry")
    entries = []
    for n in range(count):
        view = fmt.parse("rem_desc_entry", raw[n * size :])
        kind = name_of(fmt.DescType, int(view.type))
        values = tuple(int(value) for value in view.value)
        entries.append(DescEntry(kind, int(view.index), int(view.key), values))
    return tuple(entries)


def _body_problems(view: Any, raw: bytes) -> list[str]:
    """Reasons not to read the body any further."""
    const = fmt.CONST
    if view.magic != const["REM_BODY_MAGIC"]:
        return [f"body: magic is {view.magic:#x}"]
    if view.header_crc != fmt.crc32c(raw[: const["REM_BODY_HEADER_CRC_BYTES"]]):
        return ["body: the header's checksum is wrong"]
    if view.version != const["REM_VERSION"]:
        return [f"body: version {view.version}, known is {const['REM_VERSION']}"]
    size = int(view.body_bytes)
    if not const["REM_BODY_HEADER_BYTES"] <= size <= len(raw) or size % 16:
        return [f"body: {size} bytes long"]
    end = view.desc_offset + view.desc_count * fmt.size_of("rem_desc_entry")
    if view.desc_count > const["REM_DESC_ENTRIES_MAX"] or end > size:
        return [f"body: {view.desc_count} entries at {view.desc_offset:#x} do not fit"]
    return []


def _body(raw: bytes) -> tuple[Body | None, list[str]]:
    view = fmt.parse("rem_body", raw)
    problems = _body_problems(view, raw)
    if problems:
        return None, problems
    body = Body(
        sequence=int(view.sequence),
        stop_reason=name_of(fmt.StopReason, int(view.stop_reason)),
        stop_mode=name_of(fmt.StopMode, int(view.stop_mode)),
        body_bytes=int(view.body_bytes),
        region_phys=int(view.region_phys),
        region_bytes=int(view.region_bytes),
        entry_phys=int(view.entry_phys),
        entry_cr3=int(view.entry_cr3),
        context_phys=int(view.context_phys),
        context_bytes=int(view.context_bytes),
        cpu_count=int(view.cpu_count),
        realtime_ns=int(view.realtime_ns),
        boottime_ns=int(view.boottime_ns),
        monotonic_ns=int(view.monotonic_ns),
        tsc=int(view.tsc),
        stop_begin_tsc=int(view.stop_begin_tsc),
        tsc_khz=int(view.tsc_khz),
        build_id=bytes(view.build_id).hex(),
        policy=name_of(fmt.Policy, int(view.policy)),
        hold_s=int(view.hold_s),
        entries=_entries(raw[int(view.desc_offset) :], int(view.desc_count)),
    )
    if not TSC_KHZ_MIN <= body.tsc_khz <= TSC_KHZ_MAX:
        problems.append(f"body: a TSC of {body.tsc_khz} kHz")
    return body, problems


def _part(index: int) -> str:
    if index >= fmt.CONST["REM_EVENTS_GO"]:
        return "go"
    return "loader" if index >= fmt.CONST["REM_EVENTS_LOADER"] else "stop"


def _timeline(raw: bytes, slot: int, sequence: int | None) -> tuple[int | None, list[Event]]:
    """Events of one Stop: of *sequence*, else of the newest that has any."""
    size = fmt.size_of("rem_event")
    empty = bytes(size)
    found: dict[int, list[Event]] = {}
    for index in range(fmt.CONST["REM_EVENTS_MAX"]):
        entry = raw[index * size : (index + 1) * size]
        if entry == empty:
            continue
        view = fmt.parse("rem_event", entry)
        checks = view.crc == fmt.crc32c(entry[:28]) and view.reserved == 0
        if not checks or view.sequence == 0 or view.sequence % fmt.CONST["REM_SLOTS"] != slot:
            continue
        kind = name_of(fmt.EventType, int(view.type))
        event = Event(kind, int(view.cpu), int(view.tsc), int(view.value), _part(index))
        found.setdefault(int(view.sequence), []).append(event)
    if sequence is None:
        sequence = max(found, default=None)
    if sequence is None or sequence not in found:
        return None, []
    order = {"stop": 0, "loader": 1, "go": 2}
    # The clock restarts between Stop and loader: it orders events only within a part.
    return sequence, sorted(found[sequence], key=lambda event: (order[event.part], event.tsc))


def _slot_state(commit: Word, body: Body | None, consumed: Word) -> str:
    if commit.state != "valid":
        return commit.state
    if body is None or commit.sequence is None or body.sequence != commit.sequence:
        return "damaged"
    if consumed.sequence is None:
        return "not enterable: the consumed word has a wrong checksum"
    return "ready" if commit.sequence > consumed.sequence else "consumed"


def _slot(block: bytes, index: int, consumed: Word) -> Slot:
    const = fmt.CONST
    at = const["REM_BODY_OFFSET"] + index * const["REM_BODY_STRIDE_BYTES"]
    raw_body = block[at : at + const["REM_BODY_STRIDE_BYTES"]]
    at = const["REM_COMMIT_OFFSET"] + index * const["REM_COMMIT_STRIDE_BYTES"]
    raw_word = block[at : at + WORD_BYTES]
    at = const["REM_TIMELINE_OFFSET"] + index * const["REM_TIMELINE_STRIDE_BYTES"]
    raw_timeline = block[at : at + const["REM_TIMELINE_STRIDE_BYTES"]]

    body, problems = _body(raw_body) if any(raw_body) else (None, [])
    covered = raw_body[: body.body_bytes] if body else b""
    commit = _word(raw_word, lambda sequence: fmt.commit_check(sequence, fmt.crc32c(covered)))
    if commit.state == "valid" and commit.sequence is not None:
        if commit.sequence % const["REM_SLOTS"] != index:
            problems.append(f"sequence {commit.sequence} does not belong in slot {index}")
        if body is not None and body.sequence != commit.sequence:
            problems.append(f"body is of sequence {body.sequence}")
    elif commit.state == "damaged":
        problems.insert(0, f"commit word {commit.raw} does not match this body")
    else:
        problems.clear()  # without a commit there is no image, so nothing is wrong with the body
    sequence, events = _timeline(raw_timeline, index, commit.sequence)
    return Slot(
        index=index,
        commit=commit,
        state=_slot_state(commit, body, consumed),
        body=body,
        problems=tuple(problems),
        timeline_sequence=sequence,
        timeline=tuple(events),
    )


def _machine(block: bytes) -> tuple[tuple[DescEntry, ...], list[str]]:
    const = fmt.CONST
    raw = block[const["REM_DESC_OFFSET"] : const["REM_DESC_OFFSET"] + const["REM_DESC_BYTES"]]
    head = fmt.size_of("rem_desc")
    view = fmt.parse("rem_desc", raw)
    if not any(raw[:head]):
        return (), []
    size = view.count * fmt.size_of("rem_desc_entry")
    if view.magic != const["REM_DESC_MAGIC"] or view.count > const["REM_DESC_ENTRIES_MAX"]:
        return (), ["this boot's machine description has a wrong header"]
    if view.crc != fmt.crc32c(raw[head : head + size]):
        return (), ["this boot's machine description: its checksum is wrong"]
    return _entries(raw[head:], int(view.count)), []


def decode(block: bytes) -> Record:
    """Any REM_BLOCK_BYTES bytes as a Record; fewer are padded with zeros and are a problem."""
    const = fmt.CONST
    problems = []
    if len(block) < const["REM_BLOCK_BYTES"]:
        problems.append(f"only {len(block)} bytes of {const['REM_BLOCK_BYTES']} are there")
        block = block.ljust(const["REM_BLOCK_BYTES"], b"\0")
    region_bytes = None
    try:
        region_bytes = int(fmt.parse_block(block).region_bytes)
    except fmt.FormatError as error:
        # The loader's stamp is there until a kernel has laid the block out.
        stamp = int(const["REM_RANGE_MAGIC"]).to_bytes(8, "little")
        empty = not any(block[: fmt.size_of("rem_block")]) or block.startswith(stamp)
        problems.append("no block: no kernel of ours has run here" if empty else str(error))
    at = const["REM_CONSUMED_OFFSET"]
    consumed = _word(block[at : at + WORD_BYTES], fmt.consumed_check)
    if consumed.state != "valid" and region_bytes is not None:
        problems.append(f"consumed word {consumed.raw} has a wrong check: nothing can be entered")
    slots = tuple(_slot(block, index, consumed) for index in range(const["REM_SLOTS"]))
    for slot in slots:
        problems += [f"slot {slot.index}: {problem}" for problem in slot.problems]
    at = const["REM_NOTE_OFFSET"]
    raw_note = block[at : at + fmt.size_of("rem_boot_note")]
    note = read_boot_note(raw_note)
    if note is None and any(raw_note):
        problems.append("the loader's boot note has a wrong checksum")
    machine, machine_problems = _machine(block)
    return Record(
        region_bytes=region_bytes,
        consumed=consumed,
        slots=slots,
        note=note,
        machine=machine,
        problems=(*problems, *machine_problems),
    )

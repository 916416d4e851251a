# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The image record as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from lab.power.discharge import Discharge, margin_line
from lab.record.block import Body, Record, Slot
from lab.record.boot_note import BootNote, DescEntry
from lab.record.timeline import Span, Timeline

E820_NAMES = {1: "RAM", 2: "reserved", 3: "ACPI", 4: "NVS", 5: "bad", 7: "NVRAM", 12: "NVRAM (12)"}


def bdf(key: int) -> str:
    return f"{key >> 8:02x}:{key >> 3 & 31:02x}.{key & 7}"


def fourcc(key: int) -> str:
    text = key.to_bytes(4, "little").decode("ascii", "replace")
    return text if text.isprintable() else f"{key:#x}"


def serial(values: Iterable[int]) -> str:
    raw = b"".join(value.to_bytes(8, "little") for value in values).rstrip(b"\0")
    text = raw.decode("ascii", "replace")
    return text if text.isprintable() else raw.hex()


def _use(count: int, nonce: int) -> str:
    """What a range of NVRAM begins with: where it differs, another kernel has used the range."""
    if count:
        return f", stamp {count} ({nonce:#x})"
    return ", with a record block" if nonce else ""


def describe(entry: DescEntry) -> str:
    """One entry of a machine description in words."""
    key, value = entry.key, entry.value
    low, high = 0xFFFFFFFF, 32
    match entry.type:
        case "KERNEL":
            return f"bzImage CRC {value[0]:08x}, {value[1]} bytes, version CRC {value[2]:08x}"
        case "CPU_COUNT":
            return f"{value[0]} CPUs"
        case "CPU":
            return f"CPU {key}: APIC id {value[0]}"
        case "CPUID":
            registers = (value[0] & low, value[0] >> high, value[1] & low, value[1] >> high)
            words = " ".join(f"{register:08x}" for register in registers)
            return f"CPUID {key:#x}.{value[2]}: {words}"
        case "MEMORY":
            end = value[0] + value[1] - 1
            kind = E820_NAMES.get(value[2], value[2])
            return f"{value[0]:#013x}-{end:#013x} {kind}{_use(value[3], value[4])}"
        case "PCI":
            ids = f"{value[0] & 0xFFFF:04x}:{value[0] >> 16 & 0xFFFF:04x}"
            return f"{bdf(key)} {ids}, class {value[0] >> 40 & 0xFFFFFF:06x}, BARs {value[2]:#x}"
        case "ACPI":
            return f"{fourcc(key)} {value[1]} bytes, CRC {value[0]:08x}"
        case "DISK":
            return f"{bdf(key)} {value[0]} sectors, serial {serial(value[1:4])!r}"
    return f"type {entry.type}, key {key:#x}: " + " ".join(f"{word:#x}" for word in value)


def duration(time_ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(time_ns) >= size:
            return f"{time_ns / size:.3f} {unit}"
    return f"{time_ns:.0f} ns"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def overview(record: Record) -> Table:
    table = _table("Image record", "what", "state")
    region = record.region_bytes
    table.add_row("block", f"region of {region:#x} bytes" if region is not None else "none")
    consumed = record.consumed
    number = f" up to {consumed.sequence}" if consumed.sequence else f" ({consumed.raw})"
    table.add_row("consumed", consumed.state + number)
    for slot in record.slots:
        sequence = f", sequence {slot.commit.sequence}" if slot.commit.sequence else ""
        table.add_row(f"slot {slot.index}", slot.state + sequence)
    if record.note:
        table.add_row("last boot", note_line(record.note))
    counts = Counter(entry.type for entry in record.machine)
    if counts:
        table.add_row("this machine", ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return table


def note_line(note: BootNote) -> str:
    line = note.reason.removeprefix("COLD_").lower().replace("_", "-")
    if note.sequence:
        line += f", image {note.sequence} in slot {note.slot}"
    for word, entry in (("image has", note.expected), ("machine has", note.found)):
        if note.expected or note.found:
            line += f"; {word}: {describe(entry) if entry else 'nothing'}"
    return f"{line}; held because of {note.held}" if note.held else line


def policy_line(body: Body) -> str:
    """What the loader does with the image if the machine differs."""
    return {
        "COLD": "boot cold",
        "HOLD": f"hold: look again for {body.hold_s} s, then ask, and keep the image",
        "HOLD_COLD": f"hold: look again for {body.hold_s} s, then ask for as long, then boot cold",
    }.get(body.policy, body.policy)


def body_table(slot: Slot, body: Body) -> Table:
    table = _table(f"Slot {slot.index}, Stop {body.sequence}", "field", "value")
    for name, value in (
        ("reason, mode", f"{body.stop_reason}, {body.stop_mode}"),
        ("region", f"{body.region_phys:#x}, {body.region_bytes:#x} bytes"),
        ("entry, CR3", f"{body.entry_phys:#x}, {body.entry_cr3:#x}"),
        ("contexts", f"{body.cpu_count} of {body.context_bytes} bytes at {body.context_phys:#x}"),
        ("REALTIME", f"{body.realtime_ns / 1e9:.9f} s"),
        ("BOOTTIME", f"{body.boottime_ns / 1e9:.9f} s"),
        ("MONOTONIC", f"{body.monotonic_ns / 1e9:.9f} s"),
        ("TSC", f"{body.tsc} at {body.tsc_khz} kHz"),
        ("kernel build", body.build_id),
        ("if the machine differs", policy_line(body)),
        ("machine", f"{len(body.entries)} entries"),
    ):
        table.add_row(name, value)
    return table


def span_table(title: str, spans: Iterable[Span]) -> Table:
    table = _table(title, "phase", "CPU", "begin", "took")
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    for span in spans:
        begin, took = duration(span.begin_ns), duration(span.end_ns - span.begin_ns)
        table.add_row(span.name, str(span.cpu), begin, took)
    return table


def entry_table(title: str, entries: Iterable[DescEntry]) -> Table:
    table = _table(title, "type", "entry")
    for entry in entries:
        table.add_row(entry.type, describe(entry))
    return table


def discharge_table(discharge: Discharge) -> Table:
    table = _table(
        f"Left during the Stop; {margin_line(discharge)}", "at", "CPUs run", "dirty lines"
    )
    if discharge.supply:
        table.add_column("energy")
    for column in table.columns:
        column.justify = "right"
    for point in discharge.points:
        cells = [duration(point.time_ns), str(point.running), f"{point.lines:,}"]
        if point.energy_pj is not None:
            cells.append(f"{point.energy_pj / 1e9:,.1f} mJ")
        table.add_row(*cells)
    return table


def show(
    console: Console,
    record: Record,
    everything: bool,
    timeline: Timeline | None,
    discharge: Discharge | None,
) -> None:
    """Everything that `rem inspect` prints for people."""
    console.print(overview(record))
    for slot in record.slots:
        if slot.body is not None and slot.commit.state != "none":
            console.print(body_table(slot, slot.body))
    newest = record.newest
    if timeline is not None:
        for part, title in (
            ("stop", "Stop, from the power interrupt"),
            ("go", "Go, from the loader"),
        ):
            spans = [span for span in timeline.spans if span.part == part]
            if spans:
                console.print(span_table(f"{title} (sequence {timeline.sequence})", spans))
    elif newest is not None and newest.timeline:
        console.print(f"{len(newest.timeline)} events, but no clock frequency")
    if discharge is not None:
        console.print(discharge_table(discharge))
    if everything:
        console.print(entry_table("This machine", record.machine))
        for slot in record.slots:
            if slot.body is not None and slot.body.entries != record.machine:
                console.print(entry_table(f"Machine of slot {slot.index}", slot.body.entries))
    for problem in record.problems:
        console.print(f"problem: {problem}", style="bold red", highlight=False)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The events of one Stop and its Go as spans of time: what ran where, for how long.

An event marks the end of what it names, so a span begins at the event before. The control CPU's
spans follow each other; another CPU has one span to its own event. Three clocks: Stop begins at 0
with the power interrupt; the loader's and Go's TSC started with the new machine's power.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab import format as fmt
from lab.record.block import Event, Slot

# What ends with an event of the control CPU.
ENDS = {
    "STOP_FREEZE": "freeze tasks",
    "STOP_DEVICES": "stop devices",
    "STOP_PARKED": "park CPUs",  # and flush, on the fast path
    "STOP_CPU_SAVED": "save context",
    "STOP_SYSCORE": "save clocks",
    "STOP_BODY": "complete record",
    "STOP_FAILED": "FAILED",
    "LOADER_MACHINE": "describe machine",
    "LOADER_VERIFIED": "verify record",
    "LOADER_CONSUMED": "consume",
    "GO_BEGIN": "enter kernel",
    "GO_CPU": "CPU runs",
    "GO_SYSCORE": "start clocks",
    "GO_DEVICE": "start device",
    "GO_DRAM": "fill DRAM",
    "GO_DEVICES": "start devices",
    "GO_CPUS": "start CPUs",
    "GO_ENTROPY": "reseed",
    "GO_DONE": "release programs",
}
# The machine was reset because of a CPU, whose number is the value.
RESETS = {
    "GO_CPU_LOST": "LOST CPU",
    "GO_MICROCODE": "OLDER MICROCODE ON CPU",
    "GO_TSC": "OTHER TSC ON CPU",
}
PER_CPU = {"STOP_CPU_SAVED": "park and save", "GO_CPU": "come back"}
# The events from which times of each CPU are counted.
ORIGINS = {"stop": "STOP_BEGIN", "go": "GO_BEGIN"}


@dataclass(frozen=True)
class Span:
    """A phase. Times count from the power interrupt (Stop) or the loader's first instruction."""

    part: str  # "stop" or "go"; the loader is Go's first part
    name: str
    cpu: int
    begin_ns: float
    end_ns: float
    control: bool


@dataclass(frozen=True)
class Timeline:
    """One Stop and, if there was one, its Go."""

    sequence: int
    spans: tuple[Span, ...]
    stop_ns: float | None  # to "body complete", without the commit
    loader_ns: float | None  # the loader's first event to its last
    go_ns: float | None  # the loader's first event to "programs run"
    failed: bool


def _since(events: list[Event], khz: float) -> tuple[int, float]:
    """The origin's ticks, and ns per tick."""
    return events[0].tsc, 1e6 / khz


def _name(event: Event) -> str:
    if event.type in RESETS:
        return f"{RESETS[event.type]} {event.value % fmt.CONST['REM_EVENT_REPORTED']}"
    return ENDS.get(event.type, event.type.lower())


def _spans(part: str, events: list[Event], khz: float) -> list[Span]:
    if not events:
        return []
    origin, ns_per_tick = _since(events, khz)
    control = next((e.cpu for e in reversed(events) if e.type in {"STOP_BODY", "GO_BEGIN"}), 0)
    marks = {event.type: event.tsc for event in events}
    own_origin = marks.get(ORIGINS[part], origin)
    spans = []
    before = origin
    for event in events[1:]:
        begin, name = before, _name(event)
        on_control = not (event.type in PER_CPU and event.cpu != control)
        if on_control:
            before = max(before, event.tsc)
        else:
            begin, name = min(own_origin, event.tsc), PER_CPU[event.type]
        spans.append(
            Span(
                part=part,
                name=name,
                cpu=control if on_control else event.cpu,
                begin_ns=(begin - origin) * ns_per_tick,
                end_ns=(max(begin, event.tsc) - origin) * ns_per_tick,
                control=on_control,
            )
        )
    return spans


def _from_to(events: list[Event], first: str, last: str, khz: float) -> float | None:
    begin = next((e.tsc for e in events if e.type == first), None)
    end = next((e.tsc for e in reversed(events) if e.type == last), None)
    if begin is None or end is None or end < begin:
        return None
    return (end - begin) * 1e6 / khz


def timeline_of(slot: Slot) -> Timeline | None:
    """None if the slot has no Stop, or no frequency of its clock."""
    if slot.timeline_sequence is None or slot.body is None or slot.body.tsc_khz <= 0:
        return None
    khz = float(slot.body.tsc_khz)
    stop = [event for event in slot.timeline if event.part == "stop"]
    go = [event for event in slot.timeline if event.part in {"loader", "go"}]
    return Timeline(
        sequence=slot.timeline_sequence,
        spans=(*_spans("stop", stop, khz), *_spans("go", go, khz)),
        stop_ns=_from_to(stop, "STOP_BEGIN", "STOP_BODY", khz),
        loader_ns=_from_to(go, "LOADER_BEGIN", "LOADER_CONSUMED", khz),
        go_ns=_from_to(go, "LOADER_BEGIN", "GO_DONE", khz),
        failed=any(event.type == "STOP_FAILED" for event in stop),
    )


# Between Stop and Go in a trace: the time without power, which no clock of the machine counts.
OFF_NS = 1e6


def chrome_trace(
    timeline: Timeline, counters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """For ui.perfetto.dev and chrome://tracing. The gap between Stop and Go is not to scale."""
    stop_end_ns = max((s.end_ns for s in timeline.spans if s.part == "stop"), default=0.0)
    offset_ns = {"stop": 0.0, "go": stop_end_ns + OFF_NS}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": cpu, "name": "thread_name", "args": {"name": f"CPU {cpu}"}}
        for cpu in sorted({span.cpu for span in timeline.spans})
    ]
    events.append({"ph": "M", "pid": 1, "tid": 0, "name": "process_name",
                   "args": {"name": f"Stop and Go {timeline.sequence}"}})  # fmt: skip
    for span in timeline.spans:
        events.append({
            "ph": "X",
            "pid": 1,
            "tid": span.cpu,
            "cat": span.part,
            "name": span.name,
            "ts": (offset_ns[span.part] + span.begin_ns) / 1e3,
            "dur": (span.end_ns - span.begin_ns) / 1e3,
        })  # fmt: skip
    if any(span.part == "go" for span in timeline.spans):
        events.append({
            "ph": "X", "pid": 1, "tid": min(span.cpu for span in timeline.spans), "cat": "off",
            "name": "no power (not to scale)", "ts": stop_end_ns / 1e3, "dur": OFF_NS / 1e3,
        })  # fmt: skip
    return {"traceEvents": events + (counters or []), "displayTimeUnit": "ns"}

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The supply's discharge during one Stop: energy and dirty lines left over time, and the margin.

Times are of the hold-up's clock, which begins when PWR_OK drops and includes the flushes. The
record's own timeline ends before the last flush; what follows comes from the plugin's log: flushes
of all caches, with the lines before and after. The energy left is the power model's answer
(models/power/src/query.rs): CPUs run until their flush is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from lab.power.model import PowerModel
from lab.record.timeline import Span, Timeline

PERMILLE = 1000
NO_CPU = 0xFF


@dataclass(frozen=True)
class Sample:
    """A line of the plugin's flushes=FILE."""

    time_ns: int
    cpu: int
    what: str  # "drop", "begin", "end" or "dry"
    lines: int


@dataclass(frozen=True)
class Point:
    """What was left at one moment."""

    time_ns: int
    running: int  # CPUs that had not halted
    lines: int
    energy_pj: int | None  # None without a supply


@dataclass(frozen=True)
class Discharge:
    """One Stop. Margins are what was left at its commit; None if it did not commit."""

    points: tuple[Point, ...]
    end_ns: int
    hold_up_ns: int
    committed: bool
    supply: str | None
    margin_ns: int | None
    margin_pj: int | None


def read_samples(path: Path) -> list[Sample]:
    """Read the samples up to the first malformed line, as the plugin may have been killed there."""
    samples: list[Sample] = []
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return samples
    for line in lines:
        words = line.split()
        numbers = [word for n, word in enumerate(words) if n != 2]
        if len(words) != 4 or not all(word.isdecimal() for word in numbers):
            break
        sample = Sample(int(words[0]), int(words[1]), words[2], int(words[3]))
        if samples and sample.time_ns < samples[-1].time_ns:
            break
        samples.append(sample)
    return samples


def discharge_of(
    cut: dict[str, Any], samples: list[Sample], cpus: int, model: PowerModel | None
) -> Discharge | None:
    """Of the last cut; None if there was no hold-up, or no samples."""
    if not cut.get("announced") or not samples or not cut["hold_up_ns"]:
        return None
    hold_up_ns, committed = int(cut["hold_up_ns"]), bool(cut["stopped"])
    end_ns = int(cut["stopped_after_ns"]) if committed else hold_up_ns
    end_ns = max(end_ns, samples[-1].time_ns)
    last = (cut.get("caches") or {}).get("differ_lines", samples[-1].lines)
    whole = [*samples, Sample(end_ns, NO_CPU, "off", int(last))]
    points = []
    halted: set[int] = set()
    for sample in whole:
        if sample.what == "end":
            halted.add(sample.cpu)
        # The CPU that commits runs on after its flush.
        running = cpus - min(len(halted), cpus - 1)
        points.append(Point(sample.time_ns, running, sample.lines, None))
    supply = cut.get("supply")
    margin_pj = None
    if supply and model is not None:
        points, margin_pj = _with_energy(points, str(supply), cpus, model)
    margin_ns = hold_up_ns - end_ns if committed else None
    return Discharge(
        tuple(points), end_ns, hold_up_ns, committed, str(supply) if supply else None,
        margin_ns, margin_pj if committed else None,
    )  # fmt: skip


def _with_energy(
    points: list[Point], supply: str, cpus: int, model: PowerModel
) -> tuple[list[Point], int]:
    steps = [
        {
            "time_ns": after.time_ns - before.time_ns,
            "running_permille": before.running * PERMILLE // cpus,
            "lines_written": max(before.lines - after.lines, 0),
        }
        for before, after in pairwise(points)
    ]
    answer = model.ask("discharge", name=supply, steps=steps)
    left = [int(answer["energy_pj"]), *(int(value) for value in answer["left_pj"])]
    with_energy = [replace(p, energy_pj=pj) for p, pj in zip(points, left, strict=True)]
    return with_energy, left[-1]


def spans_after_record(discharge: Discharge, samples: list[Sample], control: int) -> list[Span]:
    """The phases after the record's last event: the flushes and the commit."""
    spans, begun = [], {}
    last_ns = None
    for sample in samples:
        if sample.what == "begin":
            begun[sample.cpu] = sample.time_ns
        elif sample.what in {"end", "dry"} and sample.cpu in begun:
            begin_ns = begun.pop(sample.cpu)
            name = "write back caches" if sample.what == "end" else "OUT OF ENERGY"
            spans.append(_span(name, sample.cpu, begin_ns, sample.time_ns, control))
            last_ns = sample.time_ns if sample.cpu == control else last_ns
    if discharge.committed and last_ns is not None:
        spans.append(_span("commit", control, last_ns, discharge.end_ns, control))
    return spans


def _span(name: str, cpu: int, begin_ns: int, end_ns: int, control: int) -> Span:
    return Span("stop", name, cpu, float(begin_ns), float(max(begin_ns, end_ns)), cpu == control)


def whole_timeline(timeline: Timeline, discharge: Discharge, samples: list[Sample]) -> Timeline:
    """The timeline with the phases that come after the record's last event."""
    control = next((s.cpu for s in timeline.spans if s.part == "stop" and s.control), 0)
    stop = [span for span in timeline.spans if span.part == "stop"]
    go = [span for span in timeline.spans if span.part != "stop"]
    more = spans_after_record(discharge, samples, control)
    return replace(timeline, spans=(*stop, *more, *go))


def margin_line(discharge: Discharge) -> str:
    """For people: the margin in ms and mJ, or that there was none."""
    if not discharge.committed:
        left = discharge.points[-1].lines
        return (
            f"no margin: the hold-up of {discharge.hold_up_ns / 1e6:g} ms ended before the commit, "
            f"{left:,} lines were left"
        )
    assert discharge.margin_ns is not None
    line = f"margin: {discharge.margin_ns / 1e6:.3f} ms of {discharge.hold_up_ns / 1e6:g} ms"
    if discharge.margin_pj is not None:
        all_pj = discharge.points[0].energy_pj or 0
        line += (
            f", {discharge.margin_pj / 1e9:,.1f} mJ of {all_pj / 1e9:,.1f} mJ ({discharge.supply})"
        )
    return line


def counter_events(discharge: Discharge) -> list[dict[str, Any]]:
    """For a trace viewer: what is left, as counters beside the phases."""
    events: list[dict[str, Any]] = []
    for point in discharge.points:
        at = point.time_ns / 1e3
        events.append({"ph": "C", "pid": 1, "name": "dirty lines left", "ts": at,
                       "args": {"lines": point.lines}})  # fmt: skip
        if point.energy_pj is not None:
            events.append({"ph": "C", "pid": 1, "name": "energy left", "ts": at,
                           "args": {"mJ": point.energy_pj / 1e9}})  # fmt: skip
    return events

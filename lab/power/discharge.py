# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The supply's discharge during one Stop: energy and dirty lines left over time, and the margin.

Times are of the hold-up's clock, which begins when PWR_OK drops and includes the flushes; the
guest's own does not. The flushes come from the plugin's log, with the lines before and after; CPUs
flush side by side. The energy left is the power model's answer
(models/power/src/query.rs): CPUs run until their flush is done.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        own = [other.time_ns for other in samples if other.cpu == sample.cpu]
        if own and sample.time_ns < own[-1]:
            break
        samples.append(sample)
    return samples


@dataclass(frozen=True)
class Flush:
    """One CPU writes back its caches. Places are those in the log."""

    at: int
    begin: Sample
    end: Sample

    def written(self, time_ns: int) -> int:
        """Lines written until then, as many in each nanosecond."""
        took_ns = max(self.end.time_ns - self.begin.time_ns, 1)
        passed_ns = min(max(time_ns - self.begin.time_ns, 0), took_ns)
        return max(self.begin.lines - self.end.lines, 0) * passed_ns // took_ns


def flushes_in(samples: Sequence[Sample]) -> list[Flush]:
    """The flushes that have ended, or have run out of energy."""
    found, begun = [], {}
    for at, sample in enumerate(samples):
        if sample.what == "begin":
            begun[sample.cpu] = (at, sample)
        elif sample.what in {"end", "dry"} and sample.cpu in begun:
            found.append(Flush(*begun.pop(sample.cpu), sample))
    return found


def in_time_order(samples: list[Sample]) -> list[Sample]:
    """The samples by time. CPUs flush side by side, and the log has one after the other: what a
    CPU had not written yet is added, what it has written already is taken off."""
    flushes = flushes_in(samples)
    found = []
    for at, sample in enumerate(samples):
        lines = sample.lines
        for flush in flushes:
            if flush.begin.cpu == sample.cpu:
                continue
            written = flush.written(sample.time_ns)
            whole = flush.written(flush.end.time_ns)
            lines += whole - written if flush.at < at else -written
        found.append(replace(sample, lines=max(lines, 0)))
    return sorted(found, key=lambda sample: sample.time_ns)


def discharge_of(
    cut: dict[str, Any], samples: list[Sample], cpus: int, model: PowerModel | None
) -> Discharge | None:
    """Of the last cut; None if there was no hold-up, or no samples."""
    if not cut.get("announced") or not samples or not cut["hold_up_ns"]:
        return None
    hold_up_ns, committed = int(cut["hold_up_ns"]), bool(cut["stopped"])
    end_ns = int(cut["stopped_after_ns"]) if committed else hold_up_ns
    samples = in_time_order(samples)
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


def spans_of_flushes(discharge: Discharge, samples: list[Sample], control: int) -> list[Span]:
    """The flushes and the commit, which has all that comes after the last of them."""
    spans = []
    last_ns = None
    for flush in flushes_in(samples):
        cpu, end_ns = flush.end.cpu, flush.end.time_ns
        name = "write back caches" if flush.end.what == "end" else "OUT OF ENERGY"
        spans.append(_span(name, cpu, flush.begin.time_ns, end_ns, control))
        last_ns = end_ns if last_ns is None else max(last_ns, end_ns)
    if discharge.committed and last_ns is not None:
        spans.append(_span("commit", control, last_ns, discharge.end_ns, control))
    return spans


def _span(name: str, cpu: int, begin_ns: int, end_ns: int, control: int) -> Span:
    return Span("stop", name, cpu, float(begin_ns), float(max(begin_ns, end_ns)), cpu == control)


def _before_flushes(stop: list[Span]) -> list[Span]:
    """Up to the control CPU's context. The record's clock leaves the flushes out, and what it has
    after them is part of the commit."""
    saved = [at for at, span in enumerate(stop) if span.control and span.name == "save context"]
    return stop[: saved[-1] + 1] if saved else stop


def whole_timeline(timeline: Timeline, discharge: Discharge, samples: list[Sample]) -> Timeline:
    """The timeline with the flushes and the commit."""
    control = next((s.cpu for s in timeline.spans if s.part == "stop" and s.control), 0)
    stop = [span for span in timeline.spans if span.part == "stop"]
    go = [span for span in timeline.spans if span.part != "stop"]
    more = spans_of_flushes(discharge, samples, control)
    return replace(timeline, spans=(*(_before_flushes(stop) if more else stop), *more, *go))


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

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The picture of one Stop and its Go: time to the right, one lane a CPU, a bar for each phase.

Below the Stop, if it ran in a hold-up on volatile caches: lines and energy left, on its scale.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from lab.errors import InfraError, UsageError
from lab.power.discharge import Discharge, margin_line
from lab.record.timeline import Span, Timeline

# Okabe and Ito's colours, which colour-blind people can distinguish.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
FAILED = "#B00020"
# A bar narrower than this part of the picture has no room for its name.
LABEL_FRACTION = 0.09
FORMATS = ("svg", "png", "pdf")


def _colour_of(spans: list[Span]) -> dict[str, str]:
    names = list(dict.fromkeys(span.name for span in spans))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    return {**colours, "FAILED": FAILED}


def _panel(axes: Any, title: str, spans: list[Span], cpus: list[int]) -> None:
    """One of the two halves."""
    end_ns = max((span.end_ns for span in spans), default=0.0)
    unit, scale = ("ms", 1e6) if end_ns >= 2e6 else ("µs", 1e3)
    colours = _colour_of(spans)
    named = set()
    for span in spans:
        lane = cpus.index(span.cpu)
        width = (span.end_ns - span.begin_ns) / scale
        colour = colours[span.name]
        axes.barh(lane, width, left=span.begin_ns / scale, height=0.62, color=colour,
                  edgecolor="white", linewidth=0.5,
                  label=None if span.name in named else span.name)  # fmt: skip
        named.add(span.name)
        if end_ns and (span.end_ns - span.begin_ns) / end_ns > LABEL_FRACTION:
            middle = (span.begin_ns + span.end_ns) / 2 / scale
            axes.text(middle, lane, span.name, ha="center", va="center", fontsize=7)
    axes.set_yticks(range(len(cpus)), [f"CPU {cpu}" for cpu in cpus])
    axes.set_ylim(len(cpus) - 0.5, -0.5)
    axes.set_xlim(0, end_ns / scale * 1.02 if end_ns else 1)
    axes.set_xlabel(unit, loc="right", labelpad=0)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    if not spans:
        return
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncol=4, fontsize=7, frameon=False)


def _millis(time_ns: float | None) -> str:
    return "not finished" if time_ns is None else f"{time_ns / 1e6:.3f} ms"


def _discharge(axes: Any, discharge: Discharge, end_ns: float) -> None:
    """Below the Stop, on its scale: lines and, if a supply is known, energy left."""
    unit, scale = ("ms", 1e6) if end_ns >= 2e6 else ("µs", 1e3)
    times = [point.time_ns / scale for point in discharge.points]
    lines = [point.lines for point in discharge.points]
    axes.plot(times, lines, color=COLOURS[0], marker=".", label="dirty lines left")
    axes.set_ylabel("lines", color=COLOURS[0])
    axes.set_ylim(0, max(*lines, 1) * 1.1)
    axes.set_xlim(0, end_ns / scale * 1.02 if end_ns else 1)
    axes.set_xlabel(unit, loc="right", labelpad=0)
    axes.set_title(margin_line(discharge), loc="left", fontsize=10)
    axes.spines[["top"]].set_visible(False)
    energies = [point.energy_pj / 1e9 for point in discharge.points if point.energy_pj is not None]
    if len(energies) == len(times):
        right = axes.twinx()
        right.plot(times, energies, color=COLOURS[5], marker=".")
        right.set_ylabel("energy left, mJ", color=COLOURS[5])
        right.set_ylim(0, max(*energies, 1e-9) * 1.1)


def _figure(timeline: Timeline, discharge: Discharge | None) -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "remanence"  # the same timeline gives the same file
    from matplotlib import pyplot

    parts = {part: [s for s in timeline.spans if s.part == part] for part in ("stop", "go")}
    cpus = sorted({span.cpu for span in timeline.spans}) or [0]
    panels = 2 if discharge is None else 3
    height = 3.4 + 0.7 * len(cpus) + (2 if discharge else 0)
    figure, axes = pyplot.subplots(
        panels, 1, figsize=(10, height), layout="constrained", squeeze=True
    )
    stop = (
        f"Stop {timeline.sequence}: power interrupt to record complete, {_millis(timeline.stop_ns)}"
    )
    go = (
        f"Go: loader {_millis(timeline.loader_ns)}, "
        f"loader's first instruction to programs run {_millis(timeline.go_ns)}"
    )
    _panel(axes[0], stop + (" (FAILED)" if timeline.failed else ""), parts["stop"], cpus)
    if discharge is not None:
        _discharge(axes[1], discharge, max((span.end_ns for span in parts["stop"]), default=0.0))
    _panel(axes[-1], go, parts["go"], cpus)
    return figure


def _save(timeline: Timeline, discharge: Discharge | None, target: Any, kind: str) -> None:
    from matplotlib import pyplot

    figure = _figure(timeline, discharge)
    figure.savefig(target, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    pyplot.close(figure)


def check_format(path: Path) -> str:
    """The format of the picture, by its file's suffix; or UsageError."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise UsageError(f"{path}: end it in one of {', '.join('.' + f for f in FORMATS)}")
    return kind


def draw(timeline: Timeline, path: Path, discharge: Discharge | None = None) -> None:
    """Write the picture; the file's suffix is its format."""
    kind = check_format(path)
    try:
        _save(timeline, discharge, path, kind)
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error


def svg(timeline: Timeline, discharge: Discharge | None = None) -> str:
    """The picture as an <svg> element, to embed in a page."""
    text = io.StringIO()
    _save(timeline, discharge, text, "svg")
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]

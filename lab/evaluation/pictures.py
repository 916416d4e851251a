# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pictures of ratios, ours over the paper's: of one experiment's values, and of all."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from lab.evaluation.collect import Entry, Value, Verdict
from lab.evaluation.quantity import number
from lab.report.timeline_picture import COLOURS

# By shape, too: not everybody distinguishes the colours.
MARKS: dict[Verdict, tuple[str, str, bool]] = {
    "within": ("o", COLOURS[0], True),
    "accepted": ("D", "#9A5B00", False),
    "deviates": ("X", "#B00020", True),
}
WORDS: dict[Verdict, str] = {
    "within": "within tolerance",
    "accepted": "accepted deviation",
    "deviates": "not within",
}
BAND = "#DCE6EE"
TICKS_MIN = 3  # fewer need a finer scale
NAME_COLUMNS = 46
MARGIN_MIN = 1.05  # beside marks that are close together
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a name may have dollars
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def scale_of(value: Value) -> float | None:
    """What a value and ours are divided by; None if there is no ratio of them."""
    expected = value.expected
    if expected.text is not None:
        return None
    if expected.paper is not None:
        return expected.paper if expected.paper > 0 else None
    ends = [end for end in (expected.low, expected.high) if math.isfinite(end)]
    return math.prod(ends) ** (1 / len(ends)) if min(ends) > 0 else None


def ratio(value: Value) -> float | None:
    """Ours over the paper's value, over the middle of its range or over its limit."""
    scale = scale_of(value)
    ours = None if value.ours is None else value.ours.value
    if scale is None or isinstance(ours, str | bool) or ours is None or ours <= 0:
        return None
    return float(ours) / scale


def _compared(entry: Entry) -> list[tuple[Value, float]]:
    pairs = ((value, ratio(value)) for value in entry.values)
    return [(value, of) for value, of in pairs if of is not None and math.isfinite(of)]


def _log_axis(axes: Any, ratios: Sequence[float]) -> None:
    low, high = min(*ratios, 1), max(*ratios, 1)
    margin = max((high / low) ** 0.06, MARGIN_MIN)
    low, high = low / margin, high * margin
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    coarse = [10.0**power for power in range(-9, 10)]
    for steps in ((1,), (1, 2, 5), (1, 1.1, 1.2, 1.5, 2, 3, 4, 5, 7, 8, 9)):
        ticks = [t * step for t in coarse for step in steps if low <= t * step <= high]
        if len(ticks) >= TICKS_MIN:
            break
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.axvline(1, color="#222", linewidth=0.8, zorder=1)
    axes.set_xlabel("ours / the paper's, logarithmic")


def _marks(axes: Any, verdict: Verdict, ratios: list[float], places: list[float]) -> None:
    shape, colour, is_filled = MARKS[verdict]
    axes.plot(ratios, places, linestyle="none", marker=shape, color=colour, markersize=5.5,
              markerfacecolor=colour if is_filled else "white", label=WORDS[verdict],
              clip_on=False, zorder=4 if is_filled else 3)  # fmt: skip


def _legend(axes: Any) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=4, frameon=False, fontsize=8,
                borderaxespad=0.2, handletextpad=0.3)  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= NAME_COLUMNS else name[: NAME_COLUMNS - 1] + "…"


def _draw_values(axes: Any, compared: list[tuple[Value, float]]) -> None:
    """One line a value: a band for what is within its tolerance, and a bar to ours."""
    ends = [
        end / (scale_of(value) or 1)
        for value, _ in compared
        for end in (value.expected.low, value.expected.high)
        if 0 < end < math.inf
    ]
    _log_axis(axes, [*ends, *(of for _, of in compared)])
    left, right = axes.get_xlim()
    for place, (value, of) in enumerate(compared):
        scale = scale_of(value) or 1
        low, high = (min(max(end / scale, left), right)
                     for end in (value.expected.low, value.expected.high))  # fmt: skip
        axes.barh(place, high - low, left=low, height=0.7, color=BAND,
                  label=None if place else "tolerance, range or limit")  # fmt: skip
        # From the paper's number; a range or limit has none, and what is in it does not deviate.
        begin = 1.0 if value.expected.paper is not None else min(max(of, low), high)
        axes.plot([begin, of], [place, place], color=MARKS[value.verdict][1], linewidth=1.4,
                  zorder=2)  # fmt: skip
        axes.text(1.01, place, f"{number(float(f'{of:.3g}'))}×", va="center", fontsize=7.5,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    for verdict in MARKS:
        own = [(of, n) for n, (value, of) in enumerate(compared) if value.verdict == verdict]
        if own:
            _marks(axes, verdict, [of for of, _ in own], [float(n) for _, n in own])
    axes.set_yticks(range(len(compared)), [_short(value.name) for value, _ in compared])
    axes.set_ylim(len(compared) - 0.5, -0.5)


def _draw_all(axes: Any, rows: list[tuple[Entry, list[tuple[Value, float]]]]) -> None:
    _log_axis(axes, [of for _, compared in rows for _, of in compared])
    for verdict in MARKS:
        own = [
            (of, float(place))
            for place, (_, compared) in enumerate(rows)
            for value, of in compared
            if value.verdict == verdict
        ]
        if own:
            _marks(axes, verdict, [of for of, _ in own], [place for _, place in own])
    labels = [f"{entry.name} ({', '.join(entry.kinds)})" for entry, _ in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", color="#eee")
    axes.set_axisbelow(True)


def values_picture(entry: Entry) -> str:
    """An experiment's values as an <svg> element; empty if none has a ratio."""
    compared = _compared(entry)
    if not compared:
        return ""
    label = f"{entry.name}: ours over the paper's value, for each value. The table has the numbers."
    return _picture(entry.name, label, len(compared), lambda axes: _draw_values(axes, compared))


def overview_picture(entries: Sequence[Entry]) -> str:
    """A line for each experiment that compares numbers, a mark for each value."""
    rows = [(entry, _compared(entry)) for entry in entries]
    rows = [(entry, [pair for pair in compared if pair[0].expected.paper is not None])
            for entry, compared in rows]  # fmt: skip
    rows = [(entry, compared) for entry, compared in rows if compared]
    if not rows:
        return ""
    label = "Ours over the paper's value, for each value of each experiment. The tables have them."
    return _picture("overview", label, len(rows), lambda axes: _draw_all(axes, rows))


def _picture(name: str, label: str, lines: int, draw: Any) -> str:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    with mpl.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=(7.6, 0.85 + 0.21 * lines), layout="constrained")
        draw(axes)
        _legend(axes)
        return svg(figure, name, label)


def svg(figure: Any, name: str, label: str) -> str:
    """A figure as an <svg> element of a page; it is closed. *label* is for who cannot see it."""
    import matplotlib as mpl
    from matplotlib import pyplot

    target = io.StringIO()
    # The same figure gives the same text, and two pictures of a page have no id in common.
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(target, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    drawn = target.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"\s*<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    used = set(re.findall(r"#([\w-]+)", drawn))
    drawn = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", drawn)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)

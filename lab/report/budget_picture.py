# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The picture of a budget: power over the time of a Stop, and beside it each supply's window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.messages import info
from lab.report.timeline_picture import COLOURS, FAILED


def draw(title: str, answer: dict[str, Any], path: Path) -> None:
    """Write the picture; the format follows the name."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    supplies = answer["supplies"]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 1.8 + 0.32 * max(len(supplies), 4)), width_ratios=(3, 2)
    )
    at_ms = 0.0
    for colour, phase in zip(COLOURS, answer["phases"], strict=False):
        width_ms = phase["time_ns"] / 1e6
        label = f"{phase['name']}: {phase['energy_pj'] / 1e9:.1f} mJ"
        left.bar(at_ms, phase["power_mw"] / 1e3, width=width_ms, align="edge", color=colour,
                 label=label)  # fmt: skip
        at_ms += width_ms
    left.axhline(answer["idle_mw"] / 1e3, color="black", linewidth=0.8, linestyle=":")
    left.set_xlabel("ms after PWR_OK")
    left.set_ylabel("W")
    left.set_title(title, loc="left", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    names = list(supplies)
    for lane, name in enumerate(names):
        verdict = supplies[name]
        colour = COLOURS[2] if verdict["fits"] else FAILED
        right.barh(lane, verdict["busy_window_ns"] / 1e6, color=colour, height=0.6)
    right.axvline(answer["stop_ns"] / 1e6, color="black", linewidth=1)
    right.set_yticks(range(len(names)), names, fontsize=8)
    right.set_xscale("log")
    right.set_xlabel("window when busy, ms; line: the Stop with its margin")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
    info(f"picture: {path}")

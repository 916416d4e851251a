# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 21: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.ways import CI_STEPS, came_back, expect_results, measured

WAYS = ("ours", "sng", "syspc", "acheckpc", "scheckpc")
SAVING = ("ours", "sng", "syspc")  # others have nothing to save when power fails
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73")


def measure(it: Context) -> dict[str, Any]:
    return measured(it, WAYS, CI_STEPS)


def _phases(raw: dict[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    """Costs by way and phase: the run without a failure, to save, and to come back."""
    found = {}
    for way in came_back(raw):
        found[way, "run"] = raw[way]["whole"]["cost"]
        if way in SAVING:
            found[way, "save"] = raw[way]["cut"]["save"]
        found[way, "back"] = raw[way]["cut"]["back"]
    return found


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    expect_results(raw, report)
    phases = _phases(raw)
    for (way, phase), cost in phases.items():
        cycles = cost["ns"] * paper["clock_mhz"] // 1000
        report.add(f"{way}_{phase}_cycles", cycles, "cycles")
        report.add(f"{way}_{phase}_ipc", round(cost["insns"] / max(1, cycles), 4), "")
        report.add(f"{way}_{phase}_mw", round(cost["pj"] / max(1, cost["ns"]), 1), "mW")
        report.add(f"{way}_{phase}_uj", round(cost["pj"] / 1e6), "uJ")
    for way in ("ours", "sng"):
        if {(way, "back"), ("syspc", "back")} <= set(phases):
            ratio = phases["syspc", "back"]["ns"] / phases[way, "back"]["ns"]
            report.add(f"syspc_back_over_{way}_back", round(ratio, 2), "")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots(1, 2)
    phases = _phases(raw)
    for place, phase in zip(axes, ("save", "back"), strict=True):
        for way, colour in zip(WAYS, COLOURS, strict=True):
            if cost := phases.get((way, phase)):
                cycles = cost["ns"] * paper["clock_mhz"] / 1000
                place.scatter(cycles, cost["pj"] / 1e9, color=colour, label=way)
        place.set(xscale="log", yscale="log", xlabel=f"cycles to {phase}", ylabel="mJ")
        place.legend(frameon=False, fontsize=7)

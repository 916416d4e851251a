# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 21: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.bench.persist_ways import FULLER, FULLER_MIB
from lab.experiment.run import Context, Report
from lab.experiment.ways import CI_STEPS, came_back, expect_results, measured

WAYS = ("ours", "sng", "syspc", "acheckpc", "scheckpc")
SAVING = ("ours", "sng", "syspc")  # others have nothing to save when power fails
CHECKPOINTS = ("acheckpc", "scheckpc")
# The core has 2 misses in flight, as its smallest configurations, and up to 8 would hide so much of
# the stalls at most; and what a core predicts wrongly takes cycles, which the model has not.
STALLS_PERCENT = (50, 25, 12)
CYCLES_EACH = (1.25, 1.5, 2)
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73")


def measure(it: Context) -> dict[str, Any]:
    return measured(it, (*WAYS, FULLER.name), CI_STEPS)


def _phases(raw: dict[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    """Costs by way and phase: the run without a failure, to save, and to come back."""
    found = {}
    for way in (way for way in WAYS if way in came_back(raw)):
        found[way, "run"] = raw[way]["whole"]["cost"]
        if way in SAVING:
            found[way, "save"] = raw[way]["cut"]["save"]
        found[way, "back"] = raw[way]["cut"]["back"]
    return found


def _other_cores_ns(cost: dict[str, int]) -> dict[str, float]:
    """How long it takes on a core that waits less for memory, or longer for each instruction."""
    ns, stalled_ns = cost["ns"], cost["stalled_ns"]
    executed_ns = ns - stalled_ns
    return {
        f"{percent}% of its stalls": executed_ns + stalled_ns * percent / 100
        for percent in STALLS_PERCENT
    } | {f"{each} cycles an instruction": executed_ns * each + stalled_ns for each in CYCLES_EACH}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    expect_results(raw, report)
    phases = _phases(raw)
    for (way, phase), cost in phases.items():
        cycles = cost["ns"] * paper["clock_mhz"] // 1000
        report.add(f"{way}_{phase}_cycles", cycles, "cycles")
        report.add(f"{way}_{phase}_ipc", round(cost["insns"] / max(1, cycles), 4), "")
        for about, ns in _other_cores_ns(cost).items():
            other = round(ns * paper["clock_mhz"] / 1000)
            report.add(f"{way}_{phase}_cycles, {about}", other, "cycles")
            ipc = cost["insns"] / max(1, other)
            report.add(f"{way}_{phase}_ipc, {about}", round(ipc, 4), "")
        report.add(f"{way}_{phase}_mw", round(cost["pj"] / max(1, cost["ns"]), 1), "mW")
        report.add(f"{way}_{phase}_uj", round(cost["pj"] / 1e6), "uJ")
    if {(way, "back") for way in ("syspc", *CHECKPOINTS)} <= set(phases):
        power = {way: one["pj"] / one["ns"] for (way, phase), one in phases.items()
                 if phase == "back"}  # fmt: skip
        ratio = power["syspc"] / mean(power[way] for way in CHECKPOINTS)
        report.add("syspc_back_mw_over_checkpc", round(ratio, 4), "")
    if FULLER.name in came_back(raw):
        cycles = raw[FULLER.name]["cut"]["save"]["ns"] * paper["clock_mhz"] // 1000
        report.add(f"syspc_save_cycles, {FULLER_MIB} MiB more in memory", cycles, "cycles")
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

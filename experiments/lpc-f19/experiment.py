# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 19: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.bench.persist_ways import FULLER_PROGRAM, HELD_MIB, SHORT, SHORT_SAVED
from lab.experiment.run import Context, Report
from lab.experiment.ways import CI_STEPS, FULL_STEPS, came_back, expect_results, measured

WAYS = ("ours", "sng", "syspc", "acheckpc", "scheckpc")
THEIRS = ("syspc", "acheckpc", "scheckpc")
PARTS = {"work": "#0072B2", "persistence": "#E69F00", "save, back, again": "#D55E00"}


# What the sweeps change, in the names of their figures.
SAVED_OFTEN = "a step reads four entries"
FULLER = f"{HELD_MIB} MiB more in the program"


def measure(it: Context) -> dict[str, Any]:
    """Sweeps are the full tier's, which alone compares."""
    if it.is_ci:
        return {"ways": measured(it, WAYS, CI_STEPS), "short": {}}
    short = (SHORT.name, SHORT_SAVED.name)
    found = measured(it, (*WAYS, FULLER_PROGRAM.name, *short), FULL_STEPS)
    return {"short": {name: found.pop(name) for name in short}, "ways": found}


def _ns(raw: dict[str, Any], way: str, run: str) -> int:
    return int(raw[way][run]["cost"]["ns"])


def judge(found: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    raw = found["ways"]
    expect_results(raw, report)
    ours_ns = _ns(raw, "ours", "cut")
    for way in came_back({way: raw[way] for way in WAYS}):
        whole_ns, cut = _ns(raw, way, "whole"), raw[way]["cut"]
        report.add(f"{way}_run_ns", whole_ns, "ns")
        report.add(f"{way}_over_ours", round(cut["cost"]["ns"] / ours_ns, 4), "")
        energy = cut["cost"]["pj"] / raw["ours"]["cut"]["cost"]["pj"]
        report.add(f"{way}_energy_over_ours", round(energy, 4), "")
        lost_ns = cut["save"]["ns"] + cut["back"]["ns"]
        report.add(f"{way}_stop_and_go_percent", round(lost_ns / cut["cost"]["ns"] * 100, 3), "%")
    if {"acheckpc", "syspc"} <= set(came_back(raw)):
        ratio = _ns(raw, "acheckpc", "cut") / _ns(raw, "syspc", "cut")
        report.add("acheckpc_over_syspc", round(ratio, 4), "")
    if set(THEIRS) <= set(came_back(raw)):
        _judge_scheckpc(raw, report)
        if found["short"]:
            _judge_sweeps(raw, found["short"], report)


def _judge_scheckpc(raw: dict[str, Any], report: Report) -> None:
    """The paper's other ratios of the same runs: of S-CheckPC, and the mean of all three."""
    cost = {way: raw[way]["cut"]["cost"] for way in ("ours", *THEIRS)}
    for other in ("acheckpc", "syspc"):
        ratio = cost["scheckpc"]["ns"] / cost[other]["ns"]
        report.add(f"scheckpc_over_{other}", round(ratio, 4), "")
    longer = mean(cost[way]["ns"] / cost["ours"]["ns"] for way in THEIRS)
    report.add("mean_over_ours", round(longer, 4), "")


def _judge_sweeps(raw: dict[str, Any], short: dict[str, Any], report: Report) -> None:
    """The same ratios of a program whose functions do little, and of one that has more memory."""
    runs = {name: short[name].get("whole") for name in short}
    digests = {name: run and run["digest"] for name, run in runs.items()}
    equal = None not in digests.values() and len(set(digests.values())) == 1
    report.expect("the table with short steps that saves itself is the one as written", equal)
    ours_ns, syspc_ns = (_ns(raw, way, "cut") for way in ("ours", "syspc"))
    syspc, scheckpc = syspc_ns / ours_ns, _ns(raw, "scheckpc", "cut") / ours_ns
    swept: dict[str, float] = {}
    if equal:
        plain, saved = runs[SHORT.name], runs[SHORT_SAVED.name]
        often = saved["cost"]["ns"] / plain["cost"]["ns"]
        swept |= {
            f"acheckpc_over_ours, {SAVED_OFTEN}": often,
            f"acheckpc_over_syspc, {SAVED_OFTEN}": often / syspc,
            f"scheckpc_over_acheckpc, {SAVED_OFTEN}": scheckpc / often,
            f"mean_over_ours, {SAVED_OFTEN}": mean((syspc, often, scheckpc)),
        }
    if FULLER_PROGRAM.name in came_back(raw):
        fuller = _ns(raw, FULLER_PROGRAM.name, "cut") / ours_ns
        swept |= {
            f"scheckpc_over_ours, {FULLER}": fuller,
            f"scheckpc_over_syspc, {FULLER}": fuller / syspc,
        }
    for name, value in swept.items():
        report.add(name, round(value, 4), "")


def draw(found: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    raw = {way: found["ways"][way] for way in WAYS}
    axes = figure.subplots()
    ours_ns, plain_ns = _ns(raw, "ours", "cut"), _ns(raw, "ours", "plain")
    ways = came_back(raw)
    for place, way in enumerate(ways):
        whole_ns, cut_ns = _ns(raw, way, "whole"), _ns(raw, way, "cut")
        left = 0.0
        for part, ns in zip(PARTS, (plain_ns, whole_ns - plain_ns, cut_ns - whole_ns), strict=True):
            axes.barh(place, max(0, ns) / ours_ns, left=left, color=PARTS[part],
                      label=part if not place else None)  # fmt: skip
            left += max(0, ns) / ours_ns
        if way in paper:
            axes.plot(paper[way], place, "k|", markersize=16,
                      label="paper" if way == "syspc" else None)  # fmt: skip
    axes.set_yticks(range(len(ways)), ways)
    axes.set_xlabel("time of the run with one failure, over ours")
    axes.legend(frameon=False, fontsize=7)

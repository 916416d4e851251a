# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 20: see README.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from lab.bench.persist_ways import FULLER, FULLER_MIB
from lab.experiment.run import Context, Report
from lab.experiment.ways import CI_STEPS, came_back, expect_results, measured

WAYS = ("ours", "sng", "syspc", "scheckpc")
SUPPLIES = {"atx": "atx-22", "server": "server-55"}
PARTS = {"frozen_us": "the program stands still", "memwrite_us": "its pages are written"}


def measure(it: Context) -> dict[str, Any]:
    windows_ns = {name: it.model.window_ns(supply) for name, supply in SUPPLIES.items()}
    return {"windows_ns": windows_ns, "ways": measured(it, (*WAYS, FULLER.name), CI_STEPS)}


def _saves_ns(raw: dict[str, Any]) -> dict[str, float]:
    """From the failure until all is saved; of S-CheckPC, its longest dump."""
    found: dict[str, float] = {}
    for way in WAYS:
        if way in came_back(raw["ways"]):
            runs = raw["ways"][way]
            dumps_ns = runs["whole"]["dumps_ns"]
            found[way] = max(dumps_ns) if dumps_ns else runs["cut"]["save"]["ns"]
    return found


def _swept_ns(raw: dict[str, Any]) -> dict[tuple[str, str], float]:
    """The same by way and what is other; what a mechanism makes of it."""
    found: dict[tuple[str, str], float] = {}
    back = came_back(raw["ways"])
    if "scheckpc" in back:
        copies_ns = raw["ways"]["scheckpc"]["whole"]["copies_ns"]
        found["scheckpc", "pages written by the kernel alone"] = median(copies_ns)
    if FULLER.name in back:
        more = f"{FULLER_MIB} MiB more in memory"
        found["syspc", more] = raw["ways"][FULLER.name]["cut"]["save"]["ns"]
    return found


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    expect_results(raw["ways"], report)
    for way, save_ns in _saves_ns(raw).items():
        report.add(f"{way}_save_ns", save_ns, "ns")
        for name, window_ns in raw["windows_ns"].items():
            report.add(f"{way}_over_{name}", round(save_ns / window_ns, 4), "")
    for (way, what), save_ns in _swept_ns(raw).items():
        report.add(f"{way}_save_ns, {what}", save_ns, "ns")
        for name, window_ns in raw["windows_ns"].items():
            report.add(f"{way}_over_{name}, {what}", round(save_ns / window_ns, 4), "")
    if "scheckpc" in came_back(raw["ways"]):
        counts = raw["ways"]["scheckpc"]["whole"]["dump_counts"]
        report.count("scheckpc_dump_pages", counts["pages_written"], "pages")
        for key, what in PARTS.items():
            report.add(f"scheckpc_save_ns, {what}", counts[key] * 1000, "ns")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    saves_ns = _saves_ns(raw) | {f"{way}, {what}": ns for (way, what), ns in _swept_ns(raw).items()}
    axes.barh(range(len(saves_ns)), [ns / 1e6 for ns in saves_ns.values()], color="#0072B2")
    for (name, window_ns), colour in zip(raw["windows_ns"].items(), ("#D55E00", "#009E73"),
                                         strict=True):  # fmt: skip
        axes.axvline(window_ns / 1e6, color=colour, label=f"hold-up of {SUPPLIES[name]}")
    axes.set_yticks(range(len(saves_ns)), list(saves_ns))
    axes.set(xscale="log", xlabel="ms until all is saved")
    axes.legend(frameon=False, fontsize=7)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 20: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.ways import CI_STEPS, came_back, expect_results, measured

WAYS = ("ours", "sng", "syspc", "scheckpc")
SUPPLIES = {"atx": "atx-22", "server": "server-55"}


def measure(it: Context) -> dict[str, Any]:
    windows_ns = {name: it.model.window_ns(supply) for name, supply in SUPPLIES.items()}
    return {"windows_ns": windows_ns, "ways": measured(it, WAYS, CI_STEPS)}


def _saves_ns(raw: dict[str, Any]) -> dict[str, int]:
    """From the failure until all is saved; of S-CheckPC, its longest dump."""
    found = {}
    for way in came_back(raw["ways"]):
        runs = raw["ways"][way]
        dumps_ns = runs["whole"]["dumps_ns"]
        found[way] = max(dumps_ns) if dumps_ns else runs["cut"]["save"]["ns"]
    return found


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    expect_results(raw["ways"], report)
    for way, save_ns in _saves_ns(raw).items():
        report.add(f"{way}_save_ns", save_ns, "ns")
        for name, window_ns in raw["windows_ns"].items():
            report.add(f"{way}_over_{name}", round(save_ns / window_ns, 4), "")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    saves_ns = _saves_ns(raw)
    axes.barh(range(len(saves_ns)), [ns / 1e6 for ns in saves_ns.values()], color="#0072B2")
    for (name, window_ns), colour in zip(raw["windows_ns"].items(), ("#D55E00", "#009E73"),
                                         strict=True):  # fmt: skip
        axes.axvline(window_ns / 1e6, color=colour, label=f"hold-up of {SUPPLIES[name]}")
    axes.set_yticks(range(len(saves_ns)), list(saves_ns))
    axes.set(xscale="log", xlabel="ms until all is saved")
    axes.legend(frameon=False, fontsize=7)

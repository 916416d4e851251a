# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 15: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.experiment.programs import (
    BESIDE_LEGACY,
    FASTER,
    FASTER_B,
    LEGACY,
    MEMORIES,
    OURS,
    SLOW_B,
    B,
    beside,
    draw_bars,
    measured,
    per_write,
    ratios,
)
from lab.experiment.run import Context, Report
from lab.experiment.workloads import PROGRAMS


def measure(it: Context) -> dict[str, Any]:
    return measured(it, (*MEMORIES, *FASTER))


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    over_legacy = ratios(raw, OURS, LEGACY)
    report.add("lightpc_over_legacypc", round(mean(over_legacy.values()), 3), "")
    for platform in (B, SLOW_B, *FASTER_B):
        over_ours = ratios(raw, platform, beside(platform))
        report.add(f"{platform} over LightPC", round(mean(over_ours.values()), 3), "")
        most = mean(over_ours[name] for name in ("SNAP", "astar"))
        report.add(f"{platform} over LightPC, SNAP and astar", round(most, 3), "")
        for name, ratio in over_ours.items():
            report.add(f"{name}, {platform} over LightPC", round(ratio, 3), "")
    for name, ratio in over_legacy.items():
        row = raw[OURS][name]
        report.add(f"{name}_over_legacypc", round(ratio, 3), "")
        report.add(
            f"{name}_reads_per_write",
            round(per_write(row), 2),
            "",
        )
        report.count(f"{name}_reads", row["reads"], "lines")
    report.count("programs_run", len(PROGRAMS), "programs")
    report.expect("no program is faster on LightPC than on DRAM by more than noise",
                  min(over_legacy.values()) > paper["noise"])  # fmt: skip
    report.expect("LightPC is slower than DRAM on average", mean(over_legacy.values()) > 1)
    report.expect(
        "LightPC-B is slower than LightPC on average",
        mean(ratios(raw, B, OURS).values()) > 1,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    over_legacy = {platform: ratios(raw, platform, LEGACY) for platform in BESIDE_LEGACY}
    draw_bars(figure, lambda platform, name: over_legacy[platform][name], BESIDE_LEGACY,
              "execution time, LegacyPC = 1",
              ("paper's mean of LightPC", paper["lightpc_over_legacypc"]))  # fmt: skip

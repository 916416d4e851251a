# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 16: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.experiment.programs import (
    FASTER,
    FASTER_B,
    MEMORIES,
    OURS,
    SLOW_B,
    B,
    beside,
    draw_bars,
    measured,
)
from lab.experiment.run import Context, Report
from lab.experiment.workloads import PROGRAMS

BASELINES = (B, SLOW_B, *FASTER_B)


def measure(it: Context) -> dict[str, Any]:
    return measured(it, (*MEMORIES, *FASTER))


def latency_ns(row: dict[str, int]) -> float:
    """Of a read, in the mean."""
    return row["read_ns"] / max(1, row["reads"])


def ratios(raw: dict[str, Any], platform: str) -> dict[str, float]:
    ours = raw[beside(platform)]
    return {name: latency_ns(raw[platform][name]) / latency_ns(ours[name]) for name in PROGRAMS}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for platform in BASELINES:
        # LightPC-B's own figures have short names; a sweep's end in its name.
        end = "" if platform == B else f", {platform}"
        found = ratios(raw, platform)
        by_ratio = sorted(found, key=found.__getitem__)
        report.add(f"mean_ratio{end}", round(mean(found.values()), 3), "")
        for name, ratio in found.items():
            report.add(f"{name}_ratio{end}", round(ratio, 3), "")
        for which, name in (("least", by_ratio[0]), ("most", by_ratio[-1])):
            report.add(f"{which}{end}", name, "")
            report.add(f"{which}_ratio{end}", round(found[name], 3), "")
    for name in PROGRAMS:
        report.add(f"{name}_read_ns", round(latency_ns(raw[OURS][name]), 1), "ns")
    report.expect("LightPC reads faster on average", mean(ratios(raw, B).values()) > 1)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    found = {platform: ratios(raw, platform) for platform in BASELINES}
    draw_bars(figure, lambda platform, name: found[platform][name], BASELINES,
              "read latency, LightPC = 1", ("paper's mean", paper["mean"]))  # fmt: skip

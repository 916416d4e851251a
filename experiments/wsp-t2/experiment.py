# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Table 2: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report

HOWS = ("wbinvd", "clflush", "best")
MACHINES = {"wsp-c5528": (4, 8 << 20), "wsp-4180": (6, 6 << 20)}


def measure(it: Context) -> dict[str, Any]:
    return {
        profile: {
            how: it.model.ask("flush", profile=profile, cores=cores, dirty_bytes=size, how=how)
            for how in HOWS
        }
        for profile, (cores, size) in MACHINES.items()
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for profile, row in raw.items():
        name = profile.replace("-", "_")
        for how, paper_ms in zip(HOWS, paper["ms"][profile], strict=True):
            ours_ns = row[how]["time_ns"]
            report.add(f"{name}_{how}_ns", ours_ns, "ns")
            off = (ours_ns / 1e6 - paper_ms) / paper_ms
            report.add(f"{name}_{how}_off_percent", round(off * 100, 1), "%")
        report.expect(
            f"{profile}: nothing is faster than the memory",
            all(row["best"]["time_ns"] <= row[how]["time_ns"] for how in HOWS),
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for group, (profile, row) in enumerate(raw.items()):
        for side, how in enumerate(HOWS):
            at = group * 4 + side
            axes.bar(at, row[how]["time_ns"] / 1e6, color=f"C{side}",
                     label=how if group == 0 else None)  # fmt: skip
            axes.plot([at], [paper["ms"][profile][side]], "k_", markersize=24,
                      label="paper" if group == side == 0 else None)  # fmt: skip
    axes.set_xticks([1, 5], list(raw))
    axes.set_ylabel("ms, every line dirty")
    axes.legend(frameon=False, fontsize=8)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, Figure 3: see README.md."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.xeon import (
    DRAM,
    IN_ORDER,
    MEMORIES,
    NVRAM,
    REPEATS,
    Place,
    Project,
    interval_percent,
    measured,
    run_make,
)
from lab.experiment.xeon_power import server_mw, static_mw

CPUS, CPUS_FULL = 8, 28
SMALL = Project(files=100, functions=4, level=0, jobs=8)
# As many as the paper's least, in the short tier.
SMALL_SEVEN = replace(SMALL, jobs=7)
LARGE = (Project(300, 40, 2, 7), Project(300, 40, 2, 14), Project(300, 40, 2, 28))
# The core whose loads all wait for each other, the other bound.
BOUNDS = {"in order": IN_ORDER}


def measure(it: Context) -> dict[str, Any]:
    cpus = CPUS if it.is_ci else CPUS_FULL
    projects = [SMALL, SMALL_SEVEN] if it.is_ci else [SMALL, *LARGE] * REPEATS
    jobs = {memory: (Place(MEMORIES[memory], cpus), projects) for memory in (DRAM, NVRAM)}
    if not it.is_ci:
        for bound, caches in BOUNDS.items():
            for memory in (DRAM, NVRAM):
                jobs[f"{memory}, {bound}"] = (
                    Place(MEMORIES[memory], cpus, caches),
                    [SMALL, *LARGE],
                )
    return measured(it, run_make, jobs)


def _ns(rows: dict[str, Any], jobs: str) -> float:
    return median(one["ns"] for one in rows[jobs])


def _mw(raw: dict[str, Any], memory: str, jobs: str) -> float:
    both_mw = sum(static_mw(raw[name]) for name in (DRAM, NVRAM))
    return median(server_mw(one, one["busy_ns"], both_mw) for one in raw[memory][jobs])


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for jobs in raw[DRAM]:
        for memory in (DRAM, NVRAM):
            report.add(f"{memory}, {jobs}", round(_ns(raw[memory], jobs)), "ns")
            report.add(f"{memory}, {jobs}, power", round(_mw(raw, memory, jobs)), "mW")
            within = interval_percent([one["ns"] for one in raw[memory][jobs]])
            if within:
                report.add(f"{memory}, {jobs}, 95 % within", round(within, 1), "%")
        factor = _ns(raw[NVRAM], jobs) / _ns(raw[DRAM], jobs)
        energy = factor * _mw(raw, NVRAM, jobs) / _mw(raw, DRAM, jobs)
        report.add(f"NVRAM over DRAM, {jobs}", round(factor, 3), "")
        report.add(f"NVRAM over DRAM, {jobs}, energy", round(energy, 3), "")
        for bound in BOUNDS:
            if f"{DRAM}, {bound}" in raw:
                slow, fast = (_ns(raw[f"{memory}, {bound}"], jobs) for memory in (NVRAM, DRAM))
                report.add(f"NVRAM over DRAM, {jobs}, {bound}", round(slow / fast, 3), "")
        report.expect(f"{jobs}: NVRAM costs time and energy", factor > 1 and energy > 1)
        report.expect(f"{jobs}: never over a factor of four", factor <= paper["factor_max"])
        says = {one["says"] for memory in (DRAM, NVRAM) for one in raw[memory][jobs]}
        report.expect(f"{jobs}: the same program on both", len(says) == 1)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    times, factors = figure.subplots(1, 2)
    names = list(raw[DRAM])
    for memory in (DRAM, NVRAM):
        times.plot(names, [_ns(raw[memory], jobs) / 1e9 for jobs in names], marker="o",
                   label=memory)  # fmt: skip
    factors.bar(names, [_ns(raw[NVRAM], jobs) / _ns(raw[DRAM], jobs) for jobs in names])
    factors.axhline(paper["factor"], color="black", linestyle=":", label="paper, up to 28 jobs")
    times.set(ylabel="s of make")
    factors.set(ylabel="NVRAM over DRAM")
    for axes in (times, factors):
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=7)

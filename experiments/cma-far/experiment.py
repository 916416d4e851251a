# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, recommendations 1 and 2: see README.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from lab.experiment.memory_points import (
    CACHES,
    OPERS,
    SLICE,
    SLICES,
    beyond,
    whole_rates,
)
from lab.experiment.run import Context, Report
from lab.experiment.xeon import (
    DIMMS,
    DRAM,
    FAR,
    MEMORIES,
    MODE,
    NEAR_BYTES,
    NVRAM,
    REPEATS,
    Place,
    Project,
    interval_percent,
    measured,
    run_counted,
    run_make,
)
from lab.parts import part_number

THREADS = 28
# A slice is half of a socket: it has half of its links.
LINK_BYTES_PER_NS = part_number("upi", "link_bytes_per_ns") / 2
NEAR = f"nmem:dram=ddr4-2933:channels={DIMMS // SLICE}:dimms={DIMMS // SLICE}"
# Half of what a slice's threads go through, as a program that is larger than DRAM; and links that
# limit reads.
SMALL_MODE, SMALL_NEAR_BYTES = "Memory Mode, DRAM too small", 32 << 20
SLOW_LINK = "NVRAM, far, a tenth of the links"
PLACES = {
    FAR: f"{SLICES[NVRAM]}:far=on:link_bytes_per_ns={LINK_BYTES_PER_NS}",
    MODE: f"{NEAR}:cache_bytes={NEAR_BYTES}",
    SMALL_MODE: f"{NEAR}:cache_bytes={SMALL_NEAR_BYTES}",
    SLOW_LINK: f"{SLICES[NVRAM]}:far=on:link_bytes_per_ns={LINK_BYTES_PER_NS / 10}",
}
POINTS = [beyond(oper, THREADS) for oper in OPERS]
PROJECT = Project(files=100, functions=4, level=0, jobs=8)
PROJECT_CPUS = 8


def measure(it: Context) -> dict[str, Any]:
    repeats = 1 if it.is_ci else REPEATS
    jobs = {
        name: (Place(words, THREADS // SLICE, CACHES), POINTS * repeats)
        for name, words in (SLICES | PLACES).items()
    }
    raw = {"rows": measured(it, run_counted, jobs), "make": {}}
    if not it.is_ci:
        builds = {
            name: (Place(words, PROJECT_CPUS), [PROJECT] * REPEATS)
            for name, words in MEMORIES.items()
        }
        raw["make"] = measured(it, run_make, builds)
    return raw


def _rates(raw: dict[str, Any], oper: str, report: Report) -> dict[str, float]:
    """By memory, each of which becomes a figure, too."""
    point = beyond(oper, THREADS)
    found = {}
    for name, rows in raw["rows"].items():
        samples = whole_rates(rows, point)
        found[name] = median(samples)
        figure = f"{name}: {oper}"
        report.add(figure, round(found[name], 2), "GiB/s")
        if within := interval_percent(samples):
            report.add(f"{figure}, 95 % within", round(within, 1), "%")
    return found


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for oper in OPERS:
        at = _rates(raw, oper, report)
        for name in PLACES:
            report.add(f"{name} over NVRAM, {oper}", round(at[name] / at[NVRAM], 3), "")
        no_faster = at[FAR] <= at[NVRAM] * paper["noise"]
        report.expect(f"{oper}s: far NVRAM is no faster than near", no_faster)
        order = at[NVRAM] < at[MODE] <= at[DRAM] * paper["noise"]
        report.expect(f"{oper}s: Memory Mode is between NVRAM and DRAM", order)
        report.expect(f"{oper}s: a DRAM that is too small helps less", at[SMALL_MODE] < at[MODE])
        if oper == "read":  # writes are slower than these links
            slower = at[SLOW_LINK] < at[FAR]
            report.expect(f"{oper}s: a tenth of the links is slower than all", slower)
    times = {
        name: median(one["ns"] for one in rows["8 jobs"]) for name, rows in raw["make"].items()
    }
    for name, ns in times.items():
        report.add(f"make, {name}", round(ns), "ns")
        report.add(f"make, {name} over DRAM", round(ns / times[DRAM], 3), "")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    for axes, oper in zip(figure.subplots(1, 2), OPERS, strict=True):
        point, names = beyond(oper, THREADS), list(raw["rows"])
        axes.barh(names, [median(whole_rates(raw["rows"][name], point)) for name in names])
        axes.set(xlabel=f"{oper}, {THREADS} threads beyond the caches, GiB/s")

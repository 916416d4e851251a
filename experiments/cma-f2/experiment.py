# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, Figure 2: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.xeon import (
    DRAM,
    IN_ORDER,
    MEMORIES,
    NVRAM,
    REPEATS,
    XEON,
    Files,
    Place,
    interval_percent,
    measured,
    rate,
    rates,
    run_sysbench,
)

CPUS, CPUS_FULL = 8, 28
THREADS, THREADS_FULL = (4, 7), (1, 4, 7, 14, 28)
OPERS = ("read", "write")
# What could make a copy by the kernel faster or slower than the paper's, on both memories.
SWEEP = {
    "in order": IN_ORDER,
    "48 misses under way": f"{XEON}:fill_buffers=48",
}


def measure(it: Context) -> dict[str, Any]:
    cpus, threads = (CPUS, THREADS) if it.is_ci else (CPUS_FULL, THREADS_FULL)
    points = [Files(oper, count) for oper in OPERS for count in threads]
    repeats = 1 if it.is_ci else REPEATS
    jobs = {memory: (Place(MEMORIES[memory], cpus), points * repeats) for memory in (DRAM, NVRAM)}
    swept = [Files(oper, count) for oper in OPERS for count in THREADS]
    for case, caches in () if it.is_ci else SWEEP.items():
        for memory in (DRAM, NVRAM):
            jobs[f"{memory}, {case}"] = (Place(MEMORIES[memory], CPUS, caches), swept)
    return measured(it, run_sysbench, jobs)


def _said(dram: Any, nvram: Any) -> dict[str, float]:
    """What the text has numbers for."""
    return {
        "DRAM read, 7 threads": rate(dram, Files("read", 7)),
        "NVRAM read, 4 threads": rate(nvram, Files("read", 4)),
        "DRAM over NVRAM, read": rate(dram, Files("read", 7)) / rate(nvram, Files("read", 7)),
        "DRAM over NVRAM, write": rate(dram, Files("write", 4)) / rate(nvram, Files("write", 4)),
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for memory in (DRAM, NVRAM):
        for name in raw[memory]:
            oper, threads = name.split(", ")
            point = Files(oper, int(threads.split()[0]))
            samples = rates(raw[memory], point)
            report.add(f"{memory}: {name}", round(rate(raw[memory], point), 2), "GiB/s")
            if interval_percent(samples):
                within = round(interval_percent(samples), 1)
                report.add(f"{memory}: {name}, 95 % within", within, "%")
    for name, value in _said(raw[DRAM], raw[NVRAM]).items():
        report.add(name, round(value, 2), "" if "over" in name else "GiB/s")
    for case in SWEEP if f"{DRAM}, {next(iter(SWEEP))}" in raw else ():
        for name, value in _said(raw[f"{DRAM}, {case}"], raw[f"{NVRAM}, {case}"]).items():
            report.add(f"{name}, {case}", round(value, 2), "" if "over" in name else "GiB/s")
    for oper in OPERS:
        slower = all(
            rate(raw[NVRAM], Files(oper, count)) < rate(raw[DRAM], Files(oper, count))
            for count in THREADS
        )
        report.expect(f"{oper}s of files are slower from NVRAM", slower)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    for axes, oper in zip(figure.subplots(1, 2), OPERS, strict=True):
        for memory in (DRAM, NVRAM):
            names = [name for name in raw[memory] if name.startswith(oper)]
            counts = [int(name.split(", ")[1].split()[0]) for name in names]
            axes.plot(counts, [rate(raw[memory], Files(oper, count)) for count in counts],
                      marker="o", label=memory)  # fmt: skip
        for memory, value in paper[oper].items():
            axes.axhline(value, color="black", linestyle=":")
            axes.annotate(f"paper's best, {memory}", (4, value), fontsize=6)
        axes.set(xlabel="threads", ylabel=f"{oper}, GiB/s", yscale="log")
        axes.legend(frameon=False, fontsize=7)

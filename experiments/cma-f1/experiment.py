# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, Figure 1: see README.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from lab.experiment.memory_points import (
    ALONE,
    CACHES,
    FIRST_KIB,
    OPERS,
    SECOND_KIB,
    SLICE,
    SLICES,
    THREADS,
    alone,
    beyond,
    cached_rates,
    inside,
    measure_points,
    whole_rates,
)
from lab.experiment.run import Context, Report
from lab.experiment.xeon import (
    DRAM,
    IN_ORDER,
    MEMORIES,
    NVRAM,
    XEON,
    Blocks,
    Place,
    interval_percent,
    measured,
    rate,
    run_counted,
)

# Two threads on all DIMMs, whose buffers have 128 MiB.
TWO_WRITERS = Blocks("write", 2, 96 << 10, 2, until_last=True)
# What could make their writes slower: partial blocks, which the DIMMs do not put together where
# lines leave the caches in any order and buffers of 4 KiB are as small as the model allows.
SMALL = ":buffer_bytes=65536:rmw_blocks=16"
RANDOM = "lines leave the caches in any order, no buffers of 4 KiB"
WRITES = {
    "": Place(MEMORIES[NVRAM], 2),
    f", {RANDOM}": Place(MEMORIES[NVRAM] + SMALL, 2, f"{XEON}:random"),
}
# DRAM's bus is busy for half as long again, as turning it round has it.
SLOW_BUS, SLOW_BURST_NS = "a bus that is busy half as long again", 4.08
WIDEST = 56
# What could make the rates of loops in the caches others.
LOOPS = {
    "two instructions a cycle": Place(MEMORIES[DRAM], 1, f"{XEON}:width=2"),
    "in order": Place(MEMORIES[DRAM], 1, IN_ORDER),
}
SAME = 0.25  # in the caches both memories are alike within this


def measure(it: Context) -> dict[str, Any]:
    return {"rows": measure_points(it), "more": {} if it.is_ci else _more(it)}


def _more(it: Context) -> dict[str, Any]:
    """Two writers, and the sweeps."""
    jobs: dict[str, Any] = {f"two{name}": (place, [TWO_WRITERS]) for name, place in WRITES.items()}
    jobs |= {name: (place, ALONE) for name, place in LOOPS.items()}
    for threads in THREADS:
        wide = [beyond(oper, threads) for oper in OPERS]
        place = Place(SLICES[NVRAM] + SMALL, threads // SLICE, f"{CACHES}:random")
        jobs[f"{RANDOM}, {threads}"] = (place, wide)
    place = Place(f"{SLICES[DRAM]}:tburst_ns={SLOW_BURST_NS}", WIDEST // SLICE, CACHES)
    jobs[f"{SLOW_BUS}, {WIDEST}"] = (place, wide)
    return measured(it, run_counted, jobs)


def _loops(rows: Any) -> dict[str, float]:
    """What the text says of rates within the caches."""
    first, second = ({oper: rate(rows, alone(oper, kib)) for oper in OPERS}
                     for kib in (FIRST_KIB, SECOND_KIB))  # fmt: skip
    return {
        "write over read, 32 KiB": first["write"] / first["read"],
        "read, 32 over 512 KiB": first["read"] / second["read"],
        "write, 32 over 512 KiB": first["write"] / second["write"],
    }


def _judge_threads(raw: dict[str, Any], threads: int, report: Report) -> None:
    """Rates of all threads, and what NVRAM costs beyond the caches."""
    for oper in OPERS:
        cached: dict[str, float] = {}
        far: dict[str, float] = {}
        for memory, by_threads in raw["rows"].items():
            rows = by_threads[str(threads)]
            samples = whole_rates(rows, beyond(oper, threads))
            far[memory] = median(samples)
            cached[memory] = median(cached_rates(by_threads[str(THREADS[0])], oper, threads))
            name = f"{memory} {oper}, {threads} threads"
            report.add(name, round(far[memory], 2), "GiB/s")
            report.add(f"{name}, 512 KiB", round(cached[memory], 2), "GiB/s")
            at_once = median(whole_rates(rows, inside(oper, threads)))
            report.add(f"{name}, 512 KiB, at once", round(at_once, 2), "GiB/s")
            if within := interval_percent(samples):
                report.add(f"{name}, 95 % within", round(within, 1), "%")
            report.expect(
                f"{memory}, {threads} threads: {oper}s beyond the caches are slower",
                far[memory] < cached[memory],
            )
        factor = far[DRAM] / far[NVRAM]
        report.add(f"DRAM over NVRAM, {oper}, {threads} threads", round(factor, 2), "")
        alike = abs(cached[NVRAM] / cached[DRAM] - 1) < SAME
        what = f"{threads} threads: {oper}s are alike in the caches, and slower from NVRAM beyond"
        report.expect(what, alike and factor > 1)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for threads in raw["rows"][DRAM]:
        _judge_threads(raw, int(threads), report)
    for name, value in _loops(raw["rows"][DRAM]["28"]).items():
        report.add(name, round(value, 3), "")
    if raw["more"]:
        _judge_sweeps(raw, report)


def _judge_sweeps(raw: dict[str, Any], report: Report) -> None:
    """Figures of the full tier: two writers, and what the reasons of deviations name."""
    for name in WRITES:
        value = rate(raw["more"][f"two{name}"], TWO_WRITERS)
        report.add(f"NVRAM write, 2 threads{name}", round(value, 2), "GiB/s")
    swept = ((NVRAM, RANDOM, THREADS[0]), (NVRAM, RANDOM, WIDEST), (DRAM, SLOW_BUS, WIDEST))
    for oper in OPERS:
        found = {}
        for memory, case, threads in swept:
            rows = raw["more"][f"{case}, {threads}"]
            found[memory] = median(whole_rates(rows, beyond(oper, threads)))
            name = f"{memory} {oper}, {threads} threads, {case}"
            report.add(name, round(found[memory], 2), "GiB/s")
        point = beyond(oper, WIDEST)
        ours = {memory: median(whole_rates(raw["rows"][memory][str(WIDEST)], point))
                for memory in found}  # fmt: skip
        name = f"DRAM over NVRAM, {oper}, {WIDEST} threads"
        report.add(f"{name}, {RANDOM}", round(ours[DRAM] / found[NVRAM], 2), "")
        report.add(f"{name}, {SLOW_BUS}", round(found[DRAM] / ours[NVRAM], 2), "")
        report.add(f"{name}, both", round(found[DRAM] / found[NVRAM], 2), "")
    for case in LOOPS:
        for name, value in _loops(raw["more"][case]).items():
            report.add(f"{name}, {case}", round(value, 3), "")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    for axes, oper in zip(figure.subplots(1, 2), OPERS, strict=True):
        for memory, by_threads in raw["rows"].items():
            for threads, rows in by_threads.items():
                point = beyond(oper, int(threads))
                cached = cached_rates(by_threads[str(THREADS[0])], oper, int(threads))
                axes.plot([SECOND_KIB, point.block_kib],
                          [median(cached), median(whole_rates(rows, point))],
                          marker="o", label=f"{memory}, {threads} threads")  # fmt: skip
        for memory, value in paper[oper].items():
            axes.axhline(value, color="black", linestyle=":")
            axes.annotate(f"paper, {memory}, 56 threads", (SECOND_KIB, value), fontsize=6)
        axes.set(xlabel="KiB a thread", ylabel=f"{oper}, GiB/s", xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize=7)

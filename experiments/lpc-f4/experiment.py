# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 4: see README.md."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import Any

from lab.bench.cost import REQUEST_PJ
from lab.experiment.object_modes import DRAM, Job, caches, measured, memory_mode, optane
from lab.experiment.run import Context, Report
from lab.experiment.xeon import Place

# The machine of tier ci, and the programs' memory, are smaller by this factor.
SMALLER, SMALLER_CI = 1, 8
KIB = 64 << 10  # of a work; the last level has 38.5 MiB
OPERATIONS = {
    "table": 40_000,
    "tree": 20_480,
    "stencil": 8192,  # a step
    "solver": 8192,
    "paths": 40_000,
    "words": 60_800,
}
OPERATIONS_CI = {
    "table": 12_800,
    "tree": 6_400,
    "stencil": 1024,
    "solver": 2048,
    "paths": 16_000,
    "words": 16_000,
}
DRAM_ONLY, MEM, PERSISTENT = "dram_only", "mem_mode", "persistent"
PLAIN, OBJECT, TRANS = "plain", "object", "trans"
# Of each mode its machine and its build.
MODES = {
    DRAM_ONLY: (DRAM_ONLY, PLAIN),
    MEM: (MEM, PLAIN),
    "app_mode": (PERSISTENT, PLAIN),
    "object_mode": (PERSISTENT, OBJECT),
    "trans_mode": (PERSISTENT, TRANS),
}
# Instructions of each operation besides its own: a request's way to a store, an interpreter's.
MORE = (1000, 4000)
# What an access of the DIMM takes, over the arrays' and buffers' energy that the model has.
ACCESS_TIMES = 100
SWEPT_PERCENT = 1
STRONGER = f"persistent, accesses take {ACCESS_TIMES} times"


def measure(it: Context) -> dict[str, Any]:
    smaller, operations = (SMALLER_CI, OPERATIONS_CI) if it.is_ci else (SMALLER, OPERATIONS)
    kib = KIB // smaller
    builds = {
        DRAM_ONLY: (DRAM, (PLAIN,), MORE),
        MEM: (memory_mode(smaller), (PLAIN,), MORE),  # with the same operations
        PERSISTENT: (optane(smaller), (PLAIN, OBJECT, TRANS), MORE),
        STRONGER: (optane(smaller, ACCESS_TIMES), (PLAIN, OBJECT), ()),
    }
    jobs = {
        name: Job(Place(memory, 1, caches(smaller)), its, kib, operations, more)
        for name, (memory, its, more) in builds.items()
    }
    return measured(it, jobs)


def _rows(raw: Mapping[str, Any], mode: str, machine: str | None = None) -> dict[str, Any]:
    """By program. *machine*: another one than the mode's."""
    its_machine, build = MODES[mode]
    found: dict[str, Any] = raw[machine or its_machine]["runs"][build]
    return found


def _over(rows: Mapping[str, Any], base: Mapping[str, Any], more: int = 0) -> dict[str, float]:
    """Times of each program, where operations have so many instructions more in both."""

    def of(row: Mapping[str, Any]) -> float:
        return float(row["more_ns"][str(more)] if more else row["ns"])

    return {work: of(rows[work]) / of(base[work]) for work in rows}


def _power_mw(raw: Mapping[str, Any], mode: str, machine: str | None = None) -> float:
    """Of all memory of the node while programs run one after another: both kinds of DIMMs are there
    in each mode."""
    rows = _rows(raw, mode, machine).values()
    requests_pj = sum(row[name] for row in rows for name in REQUEST_PJ)
    static_mw: float = raw[MEM]["static_mw"]
    return float(static_mw + requests_pj / sum(row["ns"] for row in rows))  # pJ a ns


def _judge_power(raw: Mapping[str, Any], report: Report) -> None:
    base_mw = _power_mw(raw, MEM)
    for mode in MODES:
        report.add(f"{mode}_memory", round(_power_mw(raw, mode) / 1000, 2), "W")
    for mode in ("app_mode", "object_mode", "trans_mode"):
        report.add(f"{mode}_power", round(_power_mw(raw, mode) / base_mw, 3), "x")
    for mode in ("app_mode", "object_mode"):
        name = f"{mode}_power, accesses take {ACCESS_TIMES} times"
        report.add(name, round(_power_mw(raw, mode, STRONGER) / base_mw, 3), "x")


def _judge_sweeps(raw: Mapping[str, Any], report: Report) -> None:
    """More work in operations."""
    base = _rows(raw, DRAM_ONLY)
    for mode in ("app_mode", "object_mode", "trans_mode"):
        for more in MORE:
            over = _over(_rows(raw, mode), base, more)
            name = f"{mode}_vs_dram_only, {more} instructions more"
            report.add(name, round(mean(over.values()), 3), "x")
    took_ns = [
        (row["more_ns"][str(MORE[-1])] - row["ns"]) / row["operations"] for row in base.values()
    ]
    report.add(f"{MORE[-1]} instructions more take", round(median(took_ns), 1), "ns")


def _judge_swept(raw: Mapping[str, Any], report: Report) -> None:
    """Of all requests, those of lines that the model's sweep found without a store."""
    rows = [row for mode in MODES for row in _rows(raw, mode).values()]
    swept = sum(row["swept"] for row in rows)
    percent = swept / sum(row["reads"] + row["writes"] for row in rows) * 100
    report.count("swept_lines", swept, "")
    report.add("swept_percent", round(percent, 3), "%")
    report.expect(
        f"at most {SWEPT_PERCENT} % of all requests are of lines that no store changed"
        f" ({percent:.3f} %)",
        percent <= SWEPT_PERCENT,
    )


def _judge_near(raw: Mapping[str, Any], report: Report) -> None:
    """What the cache of mem-mode did."""
    rows = _rows(raw, MEM).values()
    reads, writes, read_hits, write_hits = (
        sum(row[name] for row in rows) for name in ("reads", "writes", "row_reads", "row_writes")
    )
    report.count("nmem_read_hits", read_hits, "")
    report.count("nmem_write_hits", write_hits, "")
    report.count("nmem_misses", reads + writes - read_hits - write_hits, "")
    report.count("nmem_snarfs", reads - read_hits, "")
    hit_percent = (read_hits + write_hits) / (reads + writes) * 100
    report.add("nmem_hit_percent", round(hit_percent, 2), "%")
    report.expect("mem-mode's DRAM has most of what is requested", hit_percent > 50)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    base = _rows(raw, DRAM_ONLY)
    means = {}
    for mode in MODES:
        over = _over(_rows(raw, mode), base)
        means[mode] = mean(over.values())
        report.add(f"{mode}_vs_dram_only", round(means[mode], 3), "x")
        for work, times in over.items():
            report.add(f"{work}: {mode}_vs_dram_only", round(times, 3), "x")
    for work, row in base.items():
        report.add(f"{work}: ns_per_operation", round(row["ns"] / row["operations"], 1), "ns")
    in_order = (MEM, "app_mode", "object_mode", "trans_mode")
    for fast, slow in zip(in_order, in_order[1:], strict=False):
        report.expect(
            f"{slow} takes longer than {fast} ({means[slow]:.2f}, {means[fast]:.2f} of DRAM-only)",
            means[slow] > means[fast],
        )
    same = all(
        _rows(raw, mode)[work]["digest"] == base[work]["digest"] for mode in MODES for work in base
    )
    report.expect("each program has the same results in all modes", same)
    _judge_swept(raw, report)
    _judge_near(raw, report)
    _judge_power(raw, report)
    _judge_sweeps(raw, report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    base = _rows(raw, DRAM_ONLY)
    modes = [mode for mode in MODES if mode != DRAM_ONLY]
    width = 0.8 / (len(base) + 1)
    for number, work in enumerate(base):
        places = [place + number * width for place in range(len(modes))]
        axes.bar(places, [_over(_rows(raw, mode), base)[work] for mode in modes], width, label=work)
    for place, mode in enumerate(modes):
        end = place + len(base) * width
        axes.plot([place - width / 2, end], [paper[mode]] * 2, "k:")
        axes.plot([place - width / 2, end], [mean(_over(_rows(raw, mode), base).values())] * 2, "k")
    names = [mode.replace("_", "-") for mode in modes]
    axes.set_xticks([place + 0.4 for place in range(len(modes))], names)
    axes.set(ylabel="times DRAM-only; lines: mean, dotted: the paper's", yscale="log")
    axes.legend(frameon=False, fontsize=7)

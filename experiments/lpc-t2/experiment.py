# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Table II: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory, value
from lab.media.redis import redis_trace

RECORDED = "redis, recorded"  # whole: redis, its clients and the kernel
OFF = 0.25
WORKLOADS = (
    "AES", "SHA512", "miniFE", "AMG", "SNAP", "perlbench", "bzip2", "gcc", "mcf", "astar",
    "cactusADM", "dealII", "wrf", "Redis", "KeyDB", "Memcached", "SQLite",
)  # fmt: skip
# What of the machine and of the run could make reads per write another number.
SWEEP: dict[str, dict[str, Any]] = {
    "a cache of 4 KiB": {"cores": {"cache_bytes": 4096}},
    "a cache of 64 KiB": {"cores": {"cache_bytes": 65536}},
    "one way": {"cores": {"cache_ways": 1}},
    "16 ways": {"cores": {"cache_ways": 16}},
    "a tenth of the run": {"shorter": 10},
    "another seed": {"seed": 2},
}


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = 100_000 if it.is_ci else 5_000_000

    def ask(name: str, shorter: int = 1, **more: Any) -> Any:
        on = memory("lightpc")
        count = accesses // shorter
        return engine.ask("replay", memory=on, workload=name, accesses=count, **more)

    rows = {}
    for name in WORKLOADS:
        answer = ask(name)
        rows[name] = {
            "reads": int(value(answer, "reads")),
            "writes": int(value(answer, "writes")),
            "row_buffer_hits": int(value(answer, "row_writes")),
            **answer["cache"],
        }
    sweep = {
        case: {name: _compared(ask(name, **change)) for name in WORKLOADS}
        for case, change in SWEEP.items()
    }
    if not it.is_ci:
        found = engine.ask("trace", file=str(redis_trace()))
        rows[RECORDED] = {
            "reads": found["reads"],
            "writes": found["writes"],
            "instructions": found["instructions"],
        }
    return {"rows": rows, "sweep": sweep}


def _compared(answer: Any) -> dict[str, float]:
    """What is compared with the paper: ratio, and shares of hits in percent."""
    return {
        "reads_per_write": value(answer, "reads") / max(1, value(answer, "writes")),
        "load_hits_percent": answer["cache"]["load_hit_share"] * 100,
        "store_hits_percent": answer["cache"]["store_hit_share"] * 100,
    }


def _ratio(row: dict[str, Any]) -> float:
    return float(row["reads"] / max(1, row["writes"]))


def _judge_sweep(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    """Which ratios are off, and whether machine or run could be why."""
    off, within = [], []
    for name in WORKLOADS:
        cases = [case[name] for case in raw["sweep"].values()]
        for key, theirs in zip(cases[0], paper[name], strict=True):
            other = [case[key] for case in cases]
            nearest = min((abs(ours - theirs), ours) for ours in other)[1]
            report.add(f"{name}_{key}_swept_min", round(min(other), 2), "")
            report.add(f"{name}_{key}_swept_max", round(max(other), 2), "")
            report.add(f"{name}_{key}_swept_nearest", round(nearest, 2), "")
        swept = [_ratio(raw["rows"][name]), *(case["reads_per_write"] for case in cases)]
        if abs(swept[0] / paper[name][0] - 1) > OFF:
            off.append(name)
            if min(swept) <= paper[name][0] <= max(swept):
                within.append(name)
    report.count("workloads_off", len(off), "")
    report.add("off", ", ".join(off), "")
    report.add("off, and the paper's is in the sweep", ", ".join(within), "")
    report.expect("most of what is off is the kernel's, not the cache's nor the run's",
                  len(within) < len(off) / 2)  # fmt: skip


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    rows = dict(raw["rows"])
    recorded = rows.pop(RECORDED, None)
    if recorded is not None:
        report.count("redis_recorded_reads", recorded["reads"], "")
        report.count("redis_recorded_writes", recorded["writes"], "")
        report.add("redis_recorded_reads_per_write", round(_ratio(recorded), 2), "")
    for name, row in rows.items():
        report.count(f"{name}_reads", row["reads"], "")
        report.count(f"{name}_writes", row["writes"], "")
        report.count(f"{name}_row_buffer_hits", row["row_buffer_hits"], "")
        report.add(f"{name}_reads_per_write", round(_ratio(row), 2), "")
        report.add(f"{name}_paper_reads_per_write", paper[name][0], "")
        report.add(f"{name}_load_hits_percent", round(row["load_hit_share"] * 100, 1), "%")
        report.add(f"{name}_store_hits_percent", round(row["store_hit_share"] * 100, 1), "%")
    writes = sum(row["writes"] for row in rows.values())
    hits = sum(row["row_buffer_hits"] for row in rows.values())
    report.add("row_buffer_hit_share", round(hits / writes, 4), "")
    report.expect("every workload reads more than it writes",
                  all(row["reads"] > row["writes"] for row in rows.values()))  # fmt: skip
    report.add("most_reads_per_write", max(rows, key=lambda name: _ratio(rows[name])), "")
    _judge_sweep(raw, paper, report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for name in WORKLOADS:
        swept = [case[name]["reads_per_write"] for case in raw["sweep"].values()]
        at, ours = paper[name][0], _ratio(raw["rows"][name])
        axes.plot([at, at], [min(*swept, ours), max(*swept, ours)], color="grey", linewidth=1)
        axes.plot(at, ours, "o", color="#0072B2")
        axes.annotate(name, (at, ours), fontsize=6)
    axes.plot([1, 400], [1, 400], "k:")
    axes.set(xlabel="reads per write, paper", ylabel="here; lines: the sweep", xscale="log",
             yscale="log")  # fmt: skip

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Table II: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory, value
from lab.media.redis import ensure_redis_trace

RECORDED = "redis, recorded"  # whole: redis, its clients and the kernel


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = 100_000 if it.is_ci else 5_000_000
    rows = {}
    for name in (
        "AES", "SHA512", "miniFE", "AMG", "SNAP", "perlbench", "bzip2", "gcc", "mcf", "astar",
        "cactusADM", "dealII", "wrf", "Redis", "KeyDB", "Memcached", "SQLite",
    ):  # fmt: skip
        answer = engine.ask("replay", memory=memory("lightpc"), workload=name, accesses=accesses)
        rows[name] = {
            "reads": int(value(answer, "reads")),
            "writes": int(value(answer, "writes")),
            "row_buffer_hits": int(value(answer, "row_writes")),
            **answer["cache"],
        }
    if not it.is_ci:
        told = engine.ask("trace", file=str(ensure_redis_trace()))
        rows[RECORDED] = {
            "reads": told["reads"],
            "writes": told["writes"],
            "instructions": told["instructions"],
        }
    return rows


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    raw = dict(raw)
    recorded = raw.pop(RECORDED, None)
    if recorded is not None:
        ratio = recorded["reads"] / recorded["writes"]
        report.count("redis_recorded_reads", recorded["reads"], "")
        report.count("redis_recorded_writes", recorded["writes"], "")
        report.add("redis_recorded_reads_per_write", round(ratio, 2), "")
    for name, row in raw.items():
        report.count(f"{name}_reads", row["reads"], "")
        report.count(f"{name}_writes", row["writes"], "")
        report.count(f"{name}_row_buffer_hits", row["row_buffer_hits"], "")
        report.add(f"{name}_reads_per_write", round(row["reads"] / max(1, row["writes"]), 2), "")
        report.add(f"{name}_paper_reads_per_write", paper[name][0], "")
        report.add(f"{name}_load_hits_percent", round(row["load_hit_share"] * 100, 1), "%")
        report.add(f"{name}_store_hits_percent", round(row["store_hit_share"] * 100, 1), "%")
    writes = sum(row["writes"] for row in raw.values())
    hits = sum(row["row_buffer_hits"] for row in raw.values())
    report.add("row_buffer_hit_share", round(hits / writes, 4), "")
    report.expect("every workload reads more than it writes",
                  all(row["reads"] > row["writes"] for row in raw.values()))  # fmt: skip
    most = max(raw, key=lambda name: raw[name]["reads"] / max(1, raw[name]["writes"]))
    report.add("most_reads_per_write", most, "")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for name, row in raw.items():
        if name == RECORDED:
            continue
        axes.plot(paper[name][0], row["reads"] / max(1, row["writes"]), "o", color="#0072B2")
        axes.annotate(name, (paper[name][0], row["reads"] / max(1, row["writes"])), fontsize=6)
    axes.plot([1, 400], [1, 400], "k:")
    axes.set(xlabel="reads per write, paper", ylabel="here", xscale="log", yscale="log")

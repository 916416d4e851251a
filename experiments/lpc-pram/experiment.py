# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, sections VI and VIII, what DRAM writes beside what is stored: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory, value
from lab.media.redis import redis_trace
from lab.parts import part_number

STREAM = ("copy", "scale", "add", "triad")
ACCESSES, ACCESSES_CI = 2_000_000, 100_000
DRAM, PRAM = "dram", "lightpc"
LINE_BYTES = 64
RETENTION_S = 0.064  # every row of DRAM is written back so often: the paper, and JESD79-4
CAPACITY_BYTES = (1 << 30, 16 << 30, 192 << 30)


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = ACCESSES_CI if it.is_ci else ACCESSES
    stream = {}
    for kernel in STREAM:
        answer = engine.ask(
            "replay", memory=memory(PRAM), workload=f"stream-{kernel}", accesses=accesses
        )
        stream[kernel] = {
            "reads": value(answer, "reads"),
            "writes": value(answer, "writes"),
            **answer["cache"],
        }
    found: dict[str, Any] = {"stream": stream}
    if not it.is_ci:
        trace = str(redis_trace())
        found["redis"] = {on: _redis(engine, on, trace) for on in (DRAM, PRAM)}
    return found


def _redis(engine: Engine, on: str, trace: str) -> dict[str, float]:
    answer = engine.ask("replay", memory=memory(on), trace=trace)
    names = ("reads", "writes", "energy_activate_pj", "energy_refresh_pj")
    return {"time_ns": answer["time_ns"], **{name: value(answer, name) for name in names}}


def _written_bytes(dram: dict[str, float], capacity_bytes: int) -> dict[str, float]:
    """What DRAM writes into its cells: rows that a read has destroyed, and all rows by refresh."""
    opened = dram["energy_activate_pj"] / part_number("ddr4", "activate_pj")
    rounds = dram["time_ns"] / 1e9 / RETENTION_S
    return {
        "rows": opened * part_number("ddr4", "row_bytes"),
        "refresh": rounds * capacity_bytes,
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    stream = raw["stream"]
    ratios = {name: row["reads"] / max(1, row["writes"]) for name, row in stream.items()}
    for name, ratio in ratios.items():
        report.add(f"{name}_reads_per_write", round(ratio, 2), "")
        report.add(f"{name}_load_hits_percent", round(stream[name]["load_hit_share"] * 100, 1), "%")
    others = mean(paper["reads_per_write"])
    report.add("read_ratio_reduced_percent", round((1 - mean(ratios.values()) / others) * 100, 1),
               "%")  # fmt: skip
    hits = mean(row["load_hit_share"] for row in stream.values()) * 100
    fewer = 1 - hits / mean(paper["load_hits_percent"])
    report.add("hit_ratio_reduced_percent", round(fewer * 100, 1), "%")
    report.expect(
        "Add and Triad read more than Copy and Scale",
        min(ratios["add"], ratios["triad"]) > max(ratios["copy"], ratios["scale"]),
    )
    if "redis" not in raw:
        return
    pram, dram = raw["redis"][PRAM], raw["redis"][DRAM]
    stored = pram["writes"] * LINE_BYTES
    report.count("redis_stored_bytes", round(stored), "B")
    for capacity_bytes in CAPACITY_BYTES:
        written = _written_bytes(dram, capacity_bytes)
        more = sum(written.values()) / stored
        report.add(f"dram_over_stored, {capacity_bytes >> 30} GiB", round(more, 1), "x")
    report.add("dram_rows_over_stored", round(written["rows"] / stored, 1), "x")
    report.expect("redis reads more than it writes", pram["reads"] > pram["writes"])
    report.expect("PRAM has no refresh", pram["energy_refresh_pj"] == 0)
    report.expect(
        "DRAM writes more into its cells than programs store",
        sum(_written_bytes(dram, min(CAPACITY_BYTES)).values()) > stored,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    ratios, cells = figure.subplots(1, 2)
    names = list(raw["stream"])
    ratios.bar(names, [row["reads"] / max(1, row["writes"]) for row in raw["stream"].values()])
    ratios.axhline(mean(paper["reads_per_write"]), color="black", linestyle=":",
                   label="paper: mean of 17 programs")  # fmt: skip
    ratios.set(ylabel="lines read for each line written", yscale="log")
    ratios.legend(frameon=False, fontsize=7)
    if "redis" not in raw:
        return
    stored = raw["redis"][PRAM]["writes"] * LINE_BYTES
    labels = [f"{capacity >> 30} GiB" for capacity in CAPACITY_BYTES]
    below = [0.0] * len(labels)
    for part, label in (("rows", "rows that a read destroyed"), ("refresh", "refresh")):
        times = [
            _written_bytes(raw["redis"][DRAM], capacity)[part] / stored
            for capacity in CAPACITY_BYTES
        ]
        cells.bar(labels, times, bottom=below, label=label)
        below = [low + high for low, high in zip(below, times, strict=True)]
    cells.axhline(1, color="black", linestyle=":", label="PRAM: what is stored")
    cells.set(ylabel="bytes that DRAM writes for each byte stored", yscale="log")
    cells.legend(frameon=False, fontsize=7)

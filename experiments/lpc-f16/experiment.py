# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 16: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory, value

WORKLOADS = (
    "AES", "SHA512", "miniFE", "AMG", "SNAP", "perlbench", "bzip2", "gcc", "mcf", "astar",
    "cactusADM", "dealII", "wrf", "Redis", "KeyDB", "Memcached", "SQLite",
)  # fmt: skip
# Why the ratio is not the paper's: one thing at a time is changed on both sides, over SWEPT.
SWEPT = ("SNAP", "wrf", "mcf", "Redis")
SWEEP: dict[str, dict[str, Any]] = {
    "as it is": {},
    "one queue for all devices": {"change": {"dimms": 3, "devices_per_dimm": 3}},
    "program in 1 us": {"change": {"program_ns": 500, "cooling_ns": 500}},
    "program in 3 us": {"change": {"program_ns": 1500, "cooling_ns": 1500}},
    "8 misses, 32 writes in flight": {"cores": {"misses_in_flight": 8, "writes_in_flight": 32}},
}


def _mean_ns(engine: Engine, controller: str, workload: str, accesses: int, case: Any) -> float:
    answer = engine.ask(
        "replay",
        memory=memory(controller, change=case.get("change", {})),
        workload=workload,
        accesses=accesses,
        cores=case.get("cores", {}),
    )
    return value(answer, "read_mean_ns")


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = 100_000 if it.is_ci else 2_000_000

    def ratios(workloads: tuple[str, ...], case: Any) -> dict[str, Any]:
        found = {}
        for workload in workloads:
            b = _mean_ns(engine, "lightpc-b", workload, accesses, case)
            ours = _mean_ns(engine, "lightpc", workload, accesses, case)
            found[workload] = {"lightpc_b_ns": b, "lightpc_ns": ours, "ratio": b / ours}
        return found

    return {
        "workloads": ratios(WORKLOADS, {}),
        "sweep": {name: ratios(SWEPT, case) for name, case in SWEEP.items()},
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    ratios = {name: case["ratio"] for name, case in raw["workloads"].items()}
    report.add("mean_ratio", round(sum(ratios.values()) / len(ratios), 3), "")
    report.add("paper_mean_ratio", paper["mean"], "")
    for name, ratio in ratios.items():
        report.add(f"{name}_ratio", round(ratio, 3), "")
    for name, cases in raw["sweep"].items():
        mean = sum(case["ratio"] for case in cases.values()) / len(cases)
        report.add(f"mean ratio of {len(cases)}, {name}", round(mean, 2), "")
    report.expect("LightPC reads faster on average", sum(ratios.values()) / len(ratios) > 1)
    report.expect(
        f"{paper['least']} gains less than the mean, as in the paper",
        ratios[paper["least"]] < sum(ratios.values()) / len(ratios),
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    names = list(raw["workloads"])
    axes.bar(names, [raw["workloads"][n]["ratio"] for n in names], label="model")
    axes.axhline(paper["mean"], color="black", linestyle=":", label="paper's mean")
    axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7)
    axes.set(ylabel="read latency, LightPC = 1")
    axes.legend(frameon=False)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 16: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory, value
from lab.media.redis import redis_trace

WORKLOADS = (
    "AES", "SHA512", "miniFE", "AMG", "SNAP", "perlbench", "bzip2", "gcc", "mcf", "astar",
    "cactusADM", "dealII", "wrf", "Redis", "KeyDB", "Memcached", "SQLite",
)  # fmt: skip
# Why the ratio is not the paper's, over SWEPT. `b` changes LightPC-B alone, in what the paper does
# not say of it; `change` and `cores` change both sides.
SWEPT = ("SNAP", "wrf", "mcf", "Redis")
MODULE: dict[str, Any] = {"order": "module"}
RANK: dict[str, Any] = {"layout": "rank"}
MORE = {"misses_in_flight": 8, "writes_in_flight": 32}
SWEEP: dict[str, dict[str, Any]] = {
    "unchanged": {},
    "three devices in all": {"change": {"dimms": 3, "devices_per_dimm": 3}},
    "program in 1 us": {"change": {"program_ns": 500, "cooling_ns": 500}},
    "program in 3 us": {"change": {"program_ns": 1500, "cooling_ns": 1500}},
    "8 misses, 32 writes in flight": {"cores": MORE},
    "B: one queue": {"b": MODULE},
    "B: a line on all devices of a DIMM": {"b": RANK},
    "B: one queue, a line on all devices": {"b": MODULE | RANK},
    "B: one queue; 8 misses": {"b": MODULE, "cores": MORE},
    "B: a line on all devices; 8 misses": {"b": RANK, "cores": MORE},
    "B: one queue, a line on all devices; 8 misses": {"b": MODULE | RANK, "cores": MORE},
}


def _ask(
    engine: Engine, on: dict[str, Any], what: dict[str, Any], case: Any
) -> tuple[float, float]:
    """Mean latency of a read, and the time of all. The same memory is part of several ratios."""
    answer = engine.ask_once("replay", memory=on, cores=case.get("cores", {}), **what)
    return value(answer, "read_mean_ns"), float(answer["time_ns"])


def _ratio(engine: Engine, what: dict[str, Any], case: Any) -> dict[str, float]:
    change = case.get("change", {})
    b = memory("lightpc-b", change=change, **case.get("b", {}))
    b_ns, b_time_ns = _ask(engine, b, what, case)
    ours_ns, time_ns = _ask(engine, memory("lightpc", change=change), what, case)
    return {
        "lightpc_b_ns": b_ns,
        "lightpc_ns": ours_ns,
        "ratio": b_ns / ours_ns,
        "time_ratio": b_time_ns / time_ns,
    }


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = 100_000 if it.is_ci else 2_000_000

    def ratios(workloads: tuple[str, ...], case: Any) -> dict[str, Any]:
        return {w: _ratio(engine, {"workload": w, "accesses": accesses}, case) for w in workloads}

    redis = {} if it.is_ci else {"redis": {"trace": str(redis_trace())}}
    return {
        "workloads": ratios(WORKLOADS, {}),
        "sweep": {name: ratios(SWEPT, case) for name, case in SWEEP.items()},
        # Real programs, where a trace may be recorded: redis and all beside it.
        "recorded": {name: _ratio(engine, what, {}) for name, what in redis.items()},
    }


def _mean(cases: dict[str, Any], key: str = "ratio") -> float:
    return float(sum(case[key] for case in cases.values()) / len(cases))


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    workloads, sweep = raw["workloads"], raw["sweep"]
    mean = _mean(workloads)
    report.add("mean_ratio", round(mean, 3), "")
    report.add("paper_mean_ratio", paper["mean"], "")
    for name, case in workloads.items():
        report.add(f"{name}_ratio", round(case["ratio"], 3), "")
    by_ratio = sorted(workloads, key=lambda name: float(workloads[name]["ratio"]))
    for which, name in (("least", by_ratio[0]), ("most", by_ratio[-1])):
        report.add(which, name, "")
        report.add(f"{which}_ratio", round(workloads[name]["ratio"], 3), "")
    for name, cases in sweep.items():
        for key in ("ratio", "time_ratio"):
            report.add(f"mean {key} of {len(cases)}, {name}", round(_mean(cases, key), 2), "")
        ratios = {workload: float(case["ratio"]) for workload, case in cases.items()}
        for which, of in (("least", min), ("most", max)):
            report.add(f"{which} ratio of {len(cases)}, {name}", round(of(ratios.values()), 2), "")
            report.add(f"{which} of {len(cases)}, {name}", of(ratios, key=ratios.__getitem__), "")
    for name, case in raw["recorded"].items():
        report.add(f"recorded {name}_ratio", round(case["ratio"], 3), "")
    report.expect("LightPC reads faster on average", mean > 1)
    report.expect(
        f"{paper['least']} gains less than the mean, as in the paper",
        workloads[paper["least"]]["ratio"] < mean,
    )
    all_three = _mean(sweep["B: one queue, a line on all devices; 8 misses"])
    report.expect(
        "what the paper does not say of LightPC-B and its cores is worth the paper's mean",
        all_three == max(_mean(cases) for cases in sweep.values()) and all_three > paper["min"],
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes, swept = figure.subplots(1, 2)
    swept.barh(list(raw["sweep"]), [_mean(cases) for cases in raw["sweep"].values()])
    swept.axvline(paper["mean"], color="black", linestyle=":")
    swept.set(xlabel=f"mean ratio of {', '.join(SWEPT)}")
    swept.tick_params(axis="y", labelsize=6)
    names = list(raw["workloads"])
    axes.bar(names, [raw["workloads"][n]["ratio"] for n in names], label="model")
    axes.axhline(paper["mean"], color="black", linestyle=":", label="paper's mean")
    axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7)
    axes.set(ylabel="read latency, LightPC = 1")
    axes.legend(frameon=False)

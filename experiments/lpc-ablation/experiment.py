# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, its mechanisms one by one: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory, value

# All that the paper does not say of LightPC-B is slow (lpc-f15, lpc-f16).
SLOW_B = "LightPC-B, one queue, rank layout"
CASES: dict[str, dict[str, Any]] = {
    "all on": {},
    "row buffer off": {"row_buffer": False},
    "early return off": {"early_return": False},
    "XCC off": {"xcc": False},
    "rank layout": {"layout": "rank", "xcc": False},
    "always staggered": {"stagger": "always"},
    "never staggered": {"stagger": "never"},
    "randomizer off": {"randomize": False},
    "wear levelling off": {"start_gap": False, "randomize": False},
    "LightPC-B": {"controller": "lightpc-b"},
    SLOW_B: {"controller": "lightpc-b", "order": "module", "layout": "rank"},
}
WORKLOADS = ("SNAP", "wrf", "mcf", "gcc", "Redis", "KeyDB", "stream-copy")


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = 100_000 if it.is_ci else 2_000_000
    found: dict[str, Any] = {}
    for name, settings in CASES.items():
        on = memory(settings.get("controller", "lightpc"))
        on.update({key: it for key, it in settings.items() if key != "controller"})
        found[name] = {}
        for workload in WORKLOADS:
            answer = engine.ask("replay", memory=on, workload=workload, accesses=accesses)
            found[name][workload] = {
                "time_ns": answer["time_ns"],
                "read_mean_ns": value(answer, "read_mean_ns"),
                "write_mean_ns": value(answer, "write_mean_ns"),
                "energy_pj": value(answer, "energy_pj"),
                "blocked_reads": value(answer, "blocked_reads"),
            }
    return found


def mean(raw: dict[str, Any], case: str, key: str) -> float:
    ratios = [raw[case][w][key] / raw["all on"][w][key] for w in WORKLOADS]
    return float(sum(ratios) / len(ratios))


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    del paper
    for name in raw:
        for key in ("time_ns", "read_mean_ns", "energy_pj"):
            label = key.removesuffix("_ns").removesuffix("_pj")
            report.add(f"{name}: {label}, all on = 1", round(mean(raw, name, key), 3), "")
    for workload in WORKLOADS:
        for key, label in (("time_ns", "time"), ("read_mean_ns", "read_mean")):
            ratio = raw[SLOW_B][workload][key] / raw["all on"][workload][key]
            report.add(f"{SLOW_B}: {label} of {workload}, all on = 1", round(ratio, 3), "")
    report.expect("reads are slower without XCC", mean(raw, "XCC off", "read_mean_ns") > 1)
    report.expect("programs are slower in the rank layout", mean(raw, "rank layout", "time_ns") > 1)
    report.expect("the rank layout costs energy", mean(raw, "rank layout", "energy_pj") > 1)
    writes = {name: mean(raw, name, "write_mean_ns") for name in raw}
    report.expect("writes take longer without early return", writes["early return off"] > 1)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    del paper
    axes = figure.subplots()
    for index, key in enumerate(("time_ns", "read_mean_ns", "energy_pj")):
        at = [x + index * 0.25 for x in range(len(raw))]
        axes.bar(at, [mean(raw, name, key) for name in raw], 0.25, label=key)
    axes.set_xticks([x + 0.25 for x in range(len(raw))], list(raw), rotation=45, fontsize=7)
    axes.set(ylabel="all on = 1")
    axes.legend(frameon=False)

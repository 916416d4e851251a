# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 22: see README.md."""

from __future__ import annotations

from typing import Any

from lab.errors import RemError
from lab.experiment.run import Context, Report
from lab.experiment.stops import measured, worst_ns
from lab.messages import info

CPUS = (8, 16, 32, 64)
MODES = ("fast", "dpm")
L1_KIB = (16, 64, 256, 512, 1024)
STOPS = 2


def measure(it: Context) -> dict[str, Any]:
    stops: dict[str, Any] = {}
    for mode in MODES[:1] if it.is_ci else MODES:
        for cpus in CPUS[:1] if it.is_ci else CPUS:
            number = 1 if it.is_ci else STOPS
            stop_ns, why = None, ""
            try:
                stop_ns = worst_ns(measured(it, cpus, ("idle",), (mode,), number)[mode])
            except RemError as error:
                why = error.message
                info(f"{cpus} CPUs, stop={mode}, were not run: {why}")
            stops[f"{mode}-{cpus}"] = {
                "cpus": cpus,
                "mode": mode,
                "stop_ns": stop_ns,
                "why_not": why,
            }
    flushes = [
        {"cpus": cpus, "l1_kib": l1_kib, **_flush(it, cpus, l1_kib)}
        for cpus in CPUS
        for l1_kib in L1_KIB
    ]
    return {"stops": stops, "flushes": flushes}


def _flush(it: Context, cpus: int, l1_kib: int) -> Any:
    return it.model.ask("flush", profile="lightpc", cores=cpus, l1_kib=l1_kib, how="wbinvd",
                        dirty_bytes=cpus * l1_kib << 10)  # fmt: skip


def _whole_ns(raw: dict[str, Any]) -> dict[tuple[str, int, int], int]:
    """Stop and flush, by way, CPUs and KiB a core; of those that were run."""
    flush = {(case["cpus"], case["l1_kib"]): case["time_ns"] for case in raw["flushes"]}
    return {
        (case["mode"], case["cpus"], l1_kib): case["stop_ns"] + flush[case["cpus"], l1_kib]
        for case in raw["stops"].values()
        if case["stop_ns"] is not None
        for l1_kib in L1_KIB
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    run = [case for case in raw["stops"].values() if case["stop_ns"] is not None]
    report.count("cpus_run", max((case["cpus"] for case in run), default=0), "CPUs")
    report.count("not_run", len(raw["stops"]) - len(run), "cases")
    for case in run:
        report.add(f"{case['mode']}_{case['cpus']}_stop_ns", case["stop_ns"], "ns")
    whole = _whole_ns(raw)
    for (mode, cpus, l1_kib), time_ns in whole.items():
        if l1_kib in (L1_KIB[0], 512, L1_KIB[-1]):
            report.add(f"{mode}_{cpus}_{l1_kib}kib_ns", time_ns, "ns")
    report.expect("at least one number of CPUs was run", bool(run))
    for cpus in sorted({case["cpus"] for case in run if case["mode"] == "fast"}):
        if cpus <= paper["atx_cpus"]:
            report.expect(
                f"fast, {cpus} CPUs of {paper['atx_cache_kib']} KiB: within 16 ms",
                whole["fast", cpus, 16] <= paper["atx_window_ms"] * 10**6,
            )
        report.expect(
            f"fast, {cpus} CPUs of 512 KiB: within 55 ms",
            whole["fast", cpus, 512] <= paper["server_window_ms"] * 10**6,
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    whole = _whole_ns(raw)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, mode in zip(panels, MODES, strict=True):
        for l1_kib in L1_KIB:
            points = [(cpus, ns / 1e6) for (m, cpus, kib), ns in sorted(whole.items())
                      if (m, kib) == (mode, l1_kib)]  # fmt: skip
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{l1_kib} KiB a core") if (
                points
            ) else axes.text(0.3, 0.5, "not run", transform=axes.transAxes)
        for name in ("atx", "server"):
            axes.axhline(paper[f"{name}_window_ms"], color="black", linewidth=0.8, linestyle=":")
        axes.plot([paper["server_cpus"]], [paper["server_window_ms"]], "kv")
        axes.plot([paper["atx_cpus"]], [paper["atx_window_ms"]], "kv")
        axes.set(xlabel="CPUs (triangles: the paper's largest)", title=f"stop={mode}", yscale="log")
        axes.set_xscale("log", base=2)
    panels[0].set_ylabel("Stop and flush, ms")
    panels[0].legend(frameon=False, fontsize=7)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 22: see README.md."""

from __future__ import annotations

from typing import Any

from lab.errors import RemError
from lab.experiment.run import Context, Report
from lab.experiment.stops import Variant, measured, with_waits, worst
from lab.isa import IsaName
from lab.machine.config import StopModeName
from lab.messages import info

CPUS = (8, 16, 32, 64)
L1_KIB = (16, 64, 256, 512, 1024)
FIGURES_KIB = (16, 512, 1024)
STOPS = 2
WAITS_PERCENT = (50, 20, 0)


# Ways to stop, by their names in figures. LightPC's own is measured on its own instruction set.
SNG = "riscv_sng"
WAYS: dict[str, tuple[IsaName, StopModeName]] = {
    "fast": ("x86_64", "fast"),
    "riscv_fast": ("riscv64", "fast"),
    SNG: ("riscv64", "sng"),
    "dpm": ("x86_64", "dpm"),
}


def measure(it: Context) -> dict[str, Any]:
    stops: dict[str, Any] = {}
    for way in list(WAYS)[:1] if it.is_ci else WAYS:
        for cpus in CPUS[:1] if it.is_ci else CPUS:
            stops[f"{way}-{cpus}"] = {"cpus": cpus, "way": way, **_stop(it, way, cpus)}
    flushes = [
        {"cpus": cpus, "l1_kib": l1_kib, **_flush(it, cpus, l1_kib)}
        for cpus in CPUS
        for l1_kib in L1_KIB
    ]
    return {"stops": stops, "flushes": flushes}


def _stop(it: Context, way: str, cpus: int) -> dict[str, Any]:
    """The longest Stop, or why there is none."""
    (isa, mode), number = WAYS[way], 1 if it.is_ci else STOPS
    try:
        samples = measured(it, cpus, ("idle",), (mode,), number, of=Variant(isa))
    except RemError as error:
        info(f"{cpus} CPUs, {way}, were not run: {error.message}")
        return {"stop_ns": None, "why_not": error.message}
    longest = worst(samples[mode])
    return {"stop_ns": longest["stop_ns"], "halted_ns": longest["stop_halted_ns"], "why_not": ""}


def _flush(it: Context, cpus: int, l1_kib: int) -> Any:
    return it.model.ask("flush", profile="lightpc", cores=cpus, l1_kib=l1_kib, how="wbinvd",
                        dirty_bytes=cpus * l1_kib << 10)  # fmt: skip


def _run(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases that were run."""
    return [case for case in raw["stops"].values() if case["stop_ns"] is not None]


def _whole_ns(raw: dict[str, Any]) -> dict[tuple[str, int, int], int]:
    """Stop and flush, by way, CPUs and KiB a core; of those that were run."""
    flush = {(case["cpus"], case["l1_kib"]): case["time_ns"] for case in raw["flushes"]}
    return {
        (case["way"], case["cpus"], l1_kib): case["stop_ns"] + flush[case["cpus"], l1_kib]
        for case in _run(raw)
        for l1_kib in L1_KIB
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    run, whole = _run(raw), _whole_ns(raw)
    report.count("cpus_run", max((case["cpus"] for case in run), default=0), "CPUs")
    report.count("not_run", len(raw["stops"]) - len(run), "cases")
    for name, case in raw["stops"].items():
        if case["stop_ns"] is None:
            report.add(f"not run, {name}", case["why_not"], "")
    for case in run:
        way, cpus = case["way"], case["cpus"]
        report.add(f"{way}_{cpus}_stop_ns", case["stop_ns"], "ns")
        for l1_kib in FIGURES_KIB:
            name, time_ns = f"{way}_{cpus}_{l1_kib}kib_ns", whole[way, cpus, l1_kib]
            report.add(name, time_ns, "ns")
            if way != SNG:
                continue
            for percent, ns in with_waits(time_ns, case["halted_ns"], WAITS_PERCENT).items():
                report.add(f"{name}, {percent}% of its waits", ns, "ns")
    report.expect("at least one number of CPUs was run", bool(run))
    for case in run:
        if case["way"].endswith("fast"):
            _expect_windows(case["way"], case["cpus"], whole, paper, report)


def _expect_windows(
    way: str,
    cpus: int,
    whole: dict[tuple[str, int, int], int],
    paper: dict[str, Any],
    report: Report,
) -> None:
    """Our bounded path fits the paper's windows."""
    if cpus <= paper["atx_cpus"]:
        report.expect(
            f"{way}, {cpus} CPUs of {paper['atx_cache_kib']} KiB: within 16 ms",
            whole[way, cpus, 16] <= paper["atx_window_ms"] * 10**6,
        )
    report.expect(
        f"{way}, {cpus} CPUs of 512 KiB: within 55 ms",
        whole[way, cpus, 512] <= paper["server_window_ms"] * 10**6,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    whole = _whole_ns(raw)
    panels = figure.subplots(1, len(WAYS), sharey=True)
    for axes, (way, (isa, mode)) in zip(panels, WAYS.items(), strict=True):
        for l1_kib in L1_KIB:
            points = [(cpus, ns / 1e6) for (name, cpus, kib), ns in sorted(whole.items())
                      if (name, kib) == (way, l1_kib)]  # fmt: skip
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{l1_kib} KiB a core") if (
                points
            ) else axes.text(0.3, 0.5, "not run", transform=axes.transAxes)
        for name in ("atx", "server"):
            axes.axhline(paper[f"{name}_window_ms"], color="black", linewidth=0.8, linestyle=":")
        axes.plot([paper["server_cpus"]], [paper["server_window_ms"]], "kv")
        axes.plot([paper["atx_cpus"]], [paper["atx_window_ms"]], "kv")
        axes.set(xlabel="CPUs", title=f"{isa}, stop={mode}", yscale="log")
        axes.set_xscale("log", base=2)
    panels[0].set_ylabel("Stop and flush, ms (triangles: the paper's largest)")
    panels[0].legend(frameon=False, fontsize=7)

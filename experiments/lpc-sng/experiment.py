# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC's own Stop-and-Go on its own instruction set: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.stops import Variant, lightpc_parts, measured, with_waits, worst
from lab.machine.config import RISCV_CPU_BY_LINES

HARTS = 8
MODES = ("sng", "fast")
PROFILE = "lightpc"
STOPS = 10
WAITS_PERCENT = (50, 20, 0)
# What the shares of the parts depend on: how much drivers have to do, and how caches are written
# back.
DEVICES = 16
OTHERS: dict[str, dict[str, Any]] = {
    f"{DEVICES} more devices": {"devices": ("virtio-net-pci",) * DEVICES},
    "by lines": {"cpu_model": RISCV_CPU_BY_LINES},
}
OTHER_STOPS = 2


def measure(it: Context) -> dict[str, Any]:
    loads = ("idle",) if it.is_ci else ("idle", "fsync")
    samples = measured(
        it, HARTS, loads, MODES, 1 if it.is_ci else STOPS, caches=PROFILE, of=Variant("riscv64")
    )
    raw = {mode: [_kept(one) for one in samples[mode]] for mode in MODES}
    if not it.is_ci:
        for name, changes in OTHERS.items():
            other = measured(
                it, HARTS, ("idle",), ("sng",), OTHER_STOPS,
                caches=PROFILE, of=Variant("riscv64", changes),
            )  # fmt: skip
            raw[name] = [_kept(one) for one in other["sng"]]
    return raw


def _kept(sample: dict[str, Any]) -> dict[str, Any]:
    return {key: sample[key] for key in ("load", "stop_ns", "stop_halted_ns", "go_ns", "timeline")}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for mode in MODES:
        stop_ns = worst(raw[mode])["stop_ns"]
        report.add(f"{mode}_stop_max_ns", stop_ns, "ns")
        report.add(f"{mode}_go_max_ns", max(one["go_ns"] for one in raw[mode]), "ns")
        report.expect(
            f"stop={mode} is within {paper['window_ms']} ms",
            stop_ns <= paper["window_ms"] * 10**6,
        )
    sng = worst(raw["sng"])
    report.add("sng_halted_ns", sng["stop_halted_ns"], "ns")
    for percent, ns in with_waits(sng["stop_ns"], sng["stop_halted_ns"], WAITS_PERCENT).items():
        report.add(f"sng_stop_max_ns, {percent}% of its waits", ns, "ns")
    for part, share in lightpc_parts(sng["timeline"]).items():
        report.add(f"sng_{part}_percent", round(share, 1), "%")
    for name in OTHERS:
        if name in raw:
            for part, share in lightpc_parts(worst(raw[name])["timeline"]).items():
                report.add(f"sng_{part}_percent, {name}", round(share, 1), "%")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    times, parts = figure.subplots(1, 2)
    for lane, mode in enumerate(MODES):
        for key, colour in (("stop_ns", "#D55E00"), ("go_ns", "#0072B2")):
            points_ms = [one[key] / 1e6 for one in raw[mode]]
            times.plot(points_ms, [lane] * len(points_ms), "o", color=colour, alpha=0.6,
                       label=key.removesuffix("_ns").title() if lane == 0 else None)  # fmt: skip
    times.axvspan(*paper["stop_ms"], color="#F0E442", alpha=0.6, label="paper's Stop")
    times.axvline(paper["window_ms"], color="black", linewidth=0.8, linestyle=":", label="ATX")
    times.set_yticks(range(len(MODES)), [f"stop={mode}" for mode in MODES])
    times.set(xscale="log", xlabel="ms")
    times.legend(frameon=False, fontsize=7)
    ours = lightpc_parts(worst(raw["sng"])["timeline"])
    for lane, shares in enumerate((ours, dict(zip(ours, paper["parts_percent"], strict=True)))):
        left = 0.0
        for number, (part, share) in enumerate(shares.items()):
            parts.barh(lane, share, left=left, color=f"C{number}", edgecolor="white")
            if share > 8:
                parts.text(left + share / 2, lane, part, ha="center", va="center", fontsize=6)
            left += share
    parts.set_yticks((0, 1), ("ours, sng", "paper"))
    parts.set_xlabel("% of the Stop")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC's own Stop-and-Go on its own instruction set: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.stops import Variant, measured
from lab.machine.config import RISCV_CPU_BY_LINES

HARTS = 8
MODES = ("sng", "fast")
PROFILE = "lightpc"
STOPS = 10
# Of the time in which all harts wait, in percent: QEMU's clock makes it longer than it is.
WAITS_PERCENT = (50, 20, 0)
# The paper's parts of a Stop, by the event that ends them; what follows is the third.
PARTS = {"STOP_FREEZE": "process", "STOP_DEVICES": "device"}
OFFLINE = "offline"
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


def _worst(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return max(samples, key=lambda one: one["stop_ns"])


def _parts(timeline: list[Any]) -> dict[str, float]:
    """Percent of each of the paper's parts, by the instructions of all harts."""
    ends = {PARTS[event]: at for at, event, _ in timeline if event in PARTS}
    total = max(at for at, _, _ in timeline)
    marks = [0, *(ends[part] for part in PARTS.values()), total]
    return {
        part: (end - begin) / total * 100
        for part, begin, end in zip((*PARTS.values(), OFFLINE), marks, marks[1:], strict=False)
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for mode in MODES:
        stop_ns = _worst(raw[mode])["stop_ns"]
        report.add(f"{mode}_stop_max_ns", stop_ns, "ns")
        report.add(f"{mode}_go_max_ns", max(one["go_ns"] for one in raw[mode]), "ns")
        report.expect(
            f"stop={mode} is within {paper['window_ms']} ms",
            stop_ns <= paper["window_ms"] * 10**6,
        )
    sng = _worst(raw["sng"])
    report.add("sng_halted_ns", sng["stop_halted_ns"], "ns")
    for percent in WAITS_PERCENT:
        less_ns = sng["stop_halted_ns"] * (100 - percent) // 100
        report.add(f"sng_stop_max_ns, {percent}% of its waits", sng["stop_ns"] - less_ns, "ns")
    for part, share in _parts(sng["timeline"]).items():
        report.add(f"sng_{part}_percent", round(share, 1), "%")
    for name in OTHERS:
        if name in raw:
            for part, share in _parts(_worst(raw[name])["timeline"]).items():
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
    ours = _parts(_worst(raw["sng"])["timeline"])
    for lane, shares in enumerate((ours, dict(zip(ours, paper["parts_percent"], strict=True)))):
        left = 0.0
        for number, (part, share) in enumerate(shares.items()):
            parts.barh(lane, share, left=left, color=f"C{number}", edgecolor="white")
            if share > 8:
                parts.text(left + share / 2, lane, part, ha="center", va="center", fontsize=6)
            left += share
    parts.set_yticks((0, 1), ("ours, sng", "paper"))
    parts.set_xlabel("% of the Stop")

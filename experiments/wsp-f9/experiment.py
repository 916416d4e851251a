# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Figure 9: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.stops import measured

CPUS = 4
MODES = ("fast", "dpm")
STOPS = 5
TIMES_MIN = 10  # dpm over fast
WAITS_TIMES = (2, 5, 10)  # how much longer drivers could wait


def measure(it: Context) -> dict[str, Any]:
    loads = ("idle",) if it.is_ci else ("idle", "fsync")
    samples = measured(it, CPUS, loads, MODES, 1 if it.is_ci else STOPS)
    kept = ("load", "stop_ns", "stop_halted_ns")
    return {mode: [{key: one[key] for key in kept} for one in samples[mode]] for mode in MODES}


def _by_load(raw: dict[str, Any], mode: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in raw[mode]:
        found.setdefault(one["load"], []).append(one["stop_ns"])
    return found


def _judge_waits(raw: dict[str, Any], report: Report) -> None:
    """What the longest of each load takes where drivers wait longer."""
    for load in _by_load(raw, "dpm"):
        longest = max(
            (one for one in raw["dpm"] if one["load"] == load), key=lambda one: one["stop_ns"]
        )
        halted_ns = longest["stop_halted_ns"]
        report.add(f"dpm_{load}_halted_ns", halted_ns, "ns")
        for times in WAITS_TIMES:
            name = f"dpm_{load}_max_ns, {times} times its waits"
            report.add(name, longest["stop_ns"] + (times - 1) * halted_ns, "ns")


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for mode in MODES:
        for load, times_ns in _by_load(raw, mode).items():
            report.add(f"{mode}_{load}_max_ns", max(times_ns), "ns")
            report.add(f"{mode}_{load}_min_ns", min(times_ns), "ns")
    report.count("stops", sum(len(raw[mode]) for mode in MODES), "stops")
    for load, dpm_ns in _by_load(raw, "dpm").items():
        fast_ns = _by_load(raw, "fast")[load]
        times = min(dpm_ns) / max(fast_ns)
        report.add(f"{load}_dpm_over_fast", round(times, 2), "times")
        report.expect(
            f"{load}: dpm takes over {TIMES_MIN} times the bounded path", times > TIMES_MIN
        )
        report.expect(
            f"{load}: the bounded path fits the smallest window",
            max(fast_ns) < min(paper["intel_window_ms"]) * 10**6,
        )
    _judge_waits(raw, report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    names = []
    for mode in MODES:
        for load, times_ns in _by_load(raw, mode).items():
            at = len(names)
            axes.bar(at, max(times_ns) / 1e6, color="#0072B2" if mode == "fast" else "#D55E00")
            axes.plot([at] * len(times_ns), [ns / 1e6 for ns in times_ns], "k_")
            names.append(f"{mode}, {load}")
    for key, colour in (("intel_window_ms", "C3"), ("amd_window_ms", "C4")):
        for window_ms in paper[key]:
            axes.axhline(window_ms, color=colour, linewidth=0.8, linestyle=":")
    axes.axhline(paper["loaded_ms_min"], color="black", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(names)), names)
    axes.set(yscale="log", ylabel="ms; dotted: windows; dashed: paper, loaded disk")

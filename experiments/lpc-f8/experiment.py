# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 8: see README.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.stops import lightpc_parts, measured, with_waits, worst

CPUS = 4
MODES = ("fast", "dpm")
STOPS = 5
DIRTY_BYTES = 8 << 20
MACHINE = "wsp-intel-c5528"
PROCESS, DEVICE, OFFLINE = "process", "device", "offline"
WAITS_PERCENT = (50, 20, 10, 5, 0)


def measure(it: Context) -> dict[str, Any]:
    loads = ("idle",) if it.is_ci else ("idle", "fsync")
    samples = measured(it, CPUS, loads, MODES, 1 if it.is_ci else STOPS)
    flush = it.model.ask("flush", profile="wsp-c5528", cores=CPUS, how="wbinvd",
                         dirty_bytes=DIRTY_BYTES)  # fmt: skip
    raw: dict[str, Any] = {"flush_ns": flush["time_ns"], "windows_ns": {}, "ways": {}}
    for name in it.model.names("supply"):
        raw["windows_ns"][name] = it.model.window_ns(name)
    for mode in MODES:
        longest = worst(samples[mode])
        given = {"park_ns": longest["stop_ns"], "flush_ns": flush["time_ns"],
                 "dirty_bytes": DIRTY_BYTES}  # fmt: skip
        budget = it.model.ask("budget", machine=MACHINE, load="busy", given=given,
                              capacitor="supercapacitor")  # fmt: skip
        raw["ways"][mode] = {
            "stops_ns": [[one["load"], one["stop_ns"]] for one in samples[mode]],
            "timeline": longest["timeline"],
            "parts": [_times(one) for one in samples[mode]] if mode == "dpm" else [],
            "halted_ns": longest["stop_halted_ns"],
            "whole_ns": budget["stop_ns"],
            "energy_pj": budget["energy_pj"],
            "supplies": budget["supplies"],
        }
    return raw


def _parts(timeline: list[Any]) -> list[tuple[str, float]]:
    """(event that ends it, share of the instructions) in order, without those of one CPU."""
    parts, before = [], 0
    total = max((at for at, _, _ in timeline), default=0) or 1
    for at, event, _ in timeline:
        if event in ("STOP_BEGIN", "STOP_CPU_SAVED") or at <= before:
            continue
        parts.append((event.removeprefix("STOP_").lower(), (at - before) / total))
        before = at
    return parts


def _times(stop: dict[str, Any]) -> dict[str, float]:
    """How long each of LightPC's parts of a Stop takes in ns, and how long all CPUs wait."""
    parts = lightpc_parts(stop["timeline"])
    times = {part: percent / 100 * stop["stop_ns"] for part, percent in parts.items()}
    return {**times, "halted": stop["stop_halted_ns"]}


def _shares(stop: dict[str, float], flush_ns: float, waits_percent: int) -> dict[str, float]:
    """Percent of each part of a Stop with its flush, if so many percent of the waits count.

    CPUs wait for drivers: what devices take without waits is the same in each Stop.
    """
    waits_ns = min(stop["halted"], stop[DEVICE]) * (100 - waits_percent) / 100
    times = {part: stop[part] for part in (PROCESS, DEVICE, OFFLINE)}
    times[DEVICE] -= waits_ns
    times[OFFLINE] += flush_ns
    whole_ns = sum(times.values())
    return {part: ns / whole_ns * 100 for part, ns in times.items()}


def _judge_parts(stops: list[dict[str, float]], flush_ns: float, report: Report) -> None:
    """Medians of all Stops: a disk that answers late makes one of them long."""
    for waits_percent in (100, *WAITS_PERCENT):
        shares = [_shares(stop, flush_ns, waits_percent) for stop in stops]
        about = "" if waits_percent == 100 else f", {waits_percent}% of its waits"
        for part in (PROCESS, DEVICE, OFFLINE):
            percent = median(one[part] for one in shares)
            report.add(f"dpm_{part}_percent{about}", round(percent, 1), "%")


def _judge_dpm(dpm: dict[str, Any], report: Report) -> None:
    """The path that compares with the paper's."""
    report.add("dpm_halted_ns", dpm["halted_ns"], "ns")
    for percent, ns in with_waits(dpm["whole_ns"], dpm["halted_ns"], WAITS_PERCENT).items():
        report.add(f"dpm_whole_ns, {percent}% of its waits", ns, "ns")


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for mode in MODES:
        way = raw["ways"][mode]
        report.add(f"{mode}_stop_max_ns", max(ns for _, ns in way["stops_ns"]), "ns")
        report.add(f"{mode}_whole_ns", way["whole_ns"], "ns")
        report.add(f"{mode}_energy_pj", way["energy_pj"], "pJ")
        fits = [name for name, verdict in way["supplies"].items() if verdict["fits"]]
        report.count(f"{mode}_supplies_that_hold", len(fits), "supplies")
        for name, verdict in way["supplies"].items():
            report.add(f"{mode}_{name.replace('-', '_')}_margin_ns", verdict["margin_ns"], "ns")
    _judge_dpm(raw["ways"]["dpm"], report)
    _judge_parts(raw["ways"]["dpm"]["parts"], raw["flush_ns"], report)
    for name in ("atx-22", "server-55"):
        report.add(f"{name.replace('-', '_')}_window_ns", raw["windows_ns"][name], "ns")
    fast = raw["ways"]["fast"]
    report.expect("every supply holds the bounded Stop with its flush",
                  all(verdict["fits"] for verdict in fast["supplies"].values()))  # fmt: skip
    report.expect(
        f"the bounded Stop with its flush is within {paper['window_ms']['spec']} ms",
        fast["whole_ns"] <= paper["window_ms"]["spec"] * 10**6,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    windows, parts = figure.subplots(1, 2)
    names = list(raw["windows_ns"])
    windows.barh(range(len(names)), [raw["windows_ns"][name] / 1e6 for name in names],
                 color="#CCCCCC", label="window, busy")  # fmt: skip
    for mode, colour in zip(MODES, ("#0072B2", "#D55E00"), strict=True):
        whole_ms = raw["ways"][mode]["whole_ns"] / 1e6
        windows.axvline(whole_ms, color=colour, label=f"ours, {mode}: {whole_ms:.2f} ms")
    low, high = paper["stop_ms"]
    windows.axvspan(low, high, color="#F0E442", alpha=0.6, label="paper's Stop")
    windows.set_yticks(range(len(names)), names, fontsize=7)
    windows.set(xscale="log", xlabel="ms after PWR_OK")
    windows.legend(frameon=False, fontsize=7)
    rows = {mode: _parts(raw["ways"][mode]["timeline"]) for mode in MODES}
    kinds = ("process", "device", "offline")
    rows["paper"] = [
        (name, percent / 100) for name, percent in zip(kinds, paper["parts_percent"], strict=True)
    ]
    for lane, shares in enumerate(rows.values()):
        left = 0.0
        for number, (part, share) in enumerate(shares):
            parts.barh(lane, share * 100, left=left, color=f"C{number}", edgecolor="white")
            if share > 0.08:
                parts.text(left + share * 50, lane, part, ha="center", va="center", fontsize=6)
            left += share * 100
    parts.set_yticks(range(len(rows)), list(rows))
    parts.set_xlabel("% of the Stop")

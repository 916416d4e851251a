# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, Figure 4: see README.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from lab.experiment.memory_points import (
    OPERS,
    SECOND_KIB,
    SLICE,
    THREADS,
    alone,
    beyond,
    measure_points,
    times,
)
from lab.experiment.run import Context, Report
from lab.experiment.xeon import DRAM, NVRAM
from lab.experiment.xeon_power import REST_MW, STALLED_PARTS, server_mw, static_mw

CASES = ("cached", "beyond")


def measure(it: Context) -> dict[str, Any]:
    return measure_points(it)


def _memories_mw(raw: dict[str, Any], threads: str) -> float:
    return sum(SLICE * static_mw(rows[threads]) for rows in raw.values())


def _samples(raw: dict[str, Any], memory: str, threads: str, oper: str, case: str) -> list[Any]:
    """Of the whole machine. In their own caches threads do not meet: one's sample, times them."""
    if case == "beyond":
        rows = raw[memory][threads][beyond(oper, int(threads)).name]
        return [times(one, SLICE) for one in rows]
    rows = raw[memory][str(THREADS[0])][alone(oper, SECOND_KIB).name]
    return [times(one, int(threads)) for one in rows]


def _mw(
    raw: dict[str, Any], memory: str, threads: str, oper: str, case: str, **change: float
) -> float:
    both_mw = _memories_mw(raw, threads)
    return median(
        server_mw(one, int(threads) * one["ns"], both_mw, **change)
        for one in _samples(raw, memory, threads, oper, case)
    )


def _ratios(raw: dict[str, Any], threads: str, **change: float) -> dict[str, float]:
    """Power from NVRAM over that from DRAM, and beyond the caches over within them."""
    ratios = {}
    for oper in OPERS:
        power = {
            (memory, case): _mw(raw, memory, threads, oper, case, **change)
            for memory in raw
            for case in CASES
        }
        for case in CASES:
            ratios[f"{oper}, {case}, NVRAM over DRAM"] = power[NVRAM, case] / power[DRAM, case]
        for memory in raw:
            name = f"{oper}, {memory}, beyond over cached"
            ratios[name] = power[memory, "beyond"] / power[memory, "cached"]
    return ratios


def _energy(raw: dict[str, Any], threads: str, oper: str) -> float:
    """Energy of a byte beyond the caches, from NVRAM over that from DRAM."""

    def per_byte(memory: str) -> float:
        samples = _samples(raw, memory, threads, oper, "beyond")
        ns_a_byte = median(one["ns"] / one["bytes"] for one in samples)
        return _mw(raw, memory, threads, oper, "beyond") * ns_a_byte

    return per_byte(NVRAM) / per_byte(DRAM)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for threads in raw[DRAM]:
        for oper in OPERS:
            for case in CASES:
                for memory in raw:
                    watts = _mw(raw, memory, threads, oper, case) / 1000
                    name = f"{oper}, {case}, {memory}, {threads} threads"
                    report.add(name, round(watts, 1), "W")
            energy = round(_energy(raw, threads, oper), 2)
            report.add(f"{oper}, energy of a byte, {threads} threads", energy, "")
            report.expect(f"{threads} threads: a {oper} from NVRAM takes more energy", energy > 1)
        for name, value in _ratios(raw, threads).items():
            report.add(f"{name}, {threads} threads", round(value, 3), "")
        cases: list[dict[str, float]] = [{"stalled_part": part} for part in STALLED_PARTS]
        cases += [{"rest_mw": rest} for rest in REST_MW]
        for change in cases:
            (what, value), ratios = next(iter(change.items())), _ratios(raw, threads, **change)
            for name, ratio in ratios.items():
                report.add(f"{name}, {threads} threads, {what} {value:g}", round(ratio, 3), "")
            lower = all(ratio <= 1 for name, ratio in ratios.items() if "cached, NVRAM" not in name)
            report.expect(f"{threads} threads, {what} {value:g}: beyond the caches less", lower)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    threads = max(raw[DRAM], key=int)
    for axes, oper in zip(figure.subplots(1, 2), OPERS, strict=True):
        for memory in raw:
            watts = [_mw(raw, memory, threads, oper, case) / 1000 for case in CASES]
            axes.plot(CASES, watts, marker="o", label=memory)
        axes.set(ylabel=f"{oper}, {threads} threads, W")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=7)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, Figure 4: see README.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from lab.experiment.memory_points import (
    OPERS,
    SLICE,
    beyond,
    inside,
    measure_points,
    whole_sample,
)
from lab.experiment.run import Context, Report
from lab.experiment.xeon import DRAM, NVRAM, Blocks
from lab.experiment.xeon_power import REST_MW, STALLED_PARTS, server_mw, static_mw

CASES = {"cached": inside, "beyond": beyond}


def measure(it: Context) -> dict[str, Any]:
    return measure_points(it)


def _memories_mw(raw: dict[str, Any], threads: str) -> float:
    return sum(SLICE * static_mw(rows[threads]) for rows in raw.values())


def _mw(raw: dict[str, Any], memory: str, threads: str, point: Blocks, **change: float) -> float:
    both_mw = _memories_mw(raw, threads)
    return median(
        server_mw(whole_sample(one), int(threads) * one["ns"], both_mw, **change)
        for one in raw[memory][threads][point.name]
    )


def _ratios(raw: dict[str, Any], threads: str, **change: float) -> dict[str, float]:
    """Power from NVRAM over that from DRAM, and beyond the caches over within them."""
    ratios = {}
    for oper in OPERS:
        points = {case: point(oper, int(threads)) for case, point in CASES.items()}
        power = {
            (memory, case): _mw(raw, memory, threads, point, **change)
            for memory in raw
            for case, point in points.items()
        }
        for case in CASES:
            ratios[f"{oper}, {case}, NVRAM over DRAM"] = power[NVRAM, case] / power[DRAM, case]
        for memory in raw:
            name = f"{oper}, {memory}, beyond over cached"
            ratios[name] = power[memory, "beyond"] / power[memory, "cached"]
    return ratios


def _energy(raw: dict[str, Any], threads: str, oper: str) -> float:
    """Energy of a byte beyond the caches, from NVRAM over that from DRAM."""
    point = beyond(oper, int(threads))

    def per_byte(memory: str) -> float:
        samples = raw[memory][threads][point.name]
        ns_a_byte = median(one["ns"] / (SLICE * one["bytes"]) for one in samples)
        return _mw(raw, memory, threads, point) * ns_a_byte

    return per_byte(NVRAM) / per_byte(DRAM)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for threads in raw[DRAM]:
        for oper in OPERS:
            for case, point in CASES.items():
                for memory in raw:
                    watts = _mw(raw, memory, threads, point(oper, int(threads))) / 1000
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
        points = [point(oper, int(threads)) for point in CASES.values()]
        for memory in raw:
            watts = [_mw(raw, memory, threads, point) / 1000 for point in points]
            axes.plot([it.block_kib for it in points], watts, marker="o", label=memory)
        axes.set(xlabel="KiB a thread", ylabel=f"{oper}, {threads} threads, W", xscale="log")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=7)

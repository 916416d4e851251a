# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 18: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.experiment.programs import (
    BESIDE_LEGACY,
    ENERGY_PJ,
    LEGACY,
    OURS,
    SLOW_B,
    B,
    draw_bars,
    measured,
)
from lab.experiment.run import Report
from lab.experiment.workloads import PROGRAMS
from lab.parts import part_number

STATIC_PJ = ENERGY_PJ[:2]  # grow with time, not with requests
DRAM = "ddr4"
# Background power of one DIMM with its share of the controller, which the table only assumes.
SWEEP_MW = (1000, 1500, 2000, 2500)

measure = measured


def memory_pj(row: dict[str, int]) -> float:
    """The memory's energy for a program: of its time, and of its requests."""
    static = sum(row[name] for name in STATIC_PJ) * row["ns"] / row["guest_ns"]
    return static + sum(row[name] for name in ENERGY_PJ if name not in STATIC_PJ)


def memory_mw(raw: dict[str, Any], platform: str) -> float:
    rows = (raw[platform][name] for name in PROGRAMS)
    return mean(memory_pj(row) / row["ns"] for row in rows)


def board_mw(raw: dict[str, Any], lightpc_mw: float) -> float:
    """LightPC without its memory: what both platforms are said to have in common."""
    return lightpc_mw - memory_mw(raw, OURS)


def platform_pj(row: dict[str, int], board: float, more_mw: float = 0) -> float:
    """*more_mw*: of the memory. A milliwatt is a picojoule a nanosecond."""
    return memory_pj(row) + (board + more_mw) * row["ns"]


def _ratios(
    raw: dict[str, Any], platform: str, board: float, more_mw: float = 0
) -> tuple[float, float]:
    """Power and energy of a platform over LegacyPC's, whose memory takes *more_mw* more."""
    power, energy = [], []
    for name in PROGRAMS:
        row, legacy = raw[platform][name], raw[LEGACY][name]
        ratio = platform_pj(row, board) / platform_pj(legacy, board, more_mw)
        energy.append(ratio)
        power.append(ratio * legacy["ns"] / row["ns"])
    return mean(power), mean(energy)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    board = board_mw(raw, paper["lightpc_mw"])
    report.add("board_mw", round(board), "mW")
    for platform in (LEGACY, OURS, B):
        taken_mw = memory_mw(raw, platform)
        report.add(f"{platform}_memory_mw", round(taken_mw), "mW")
        report.add(f"{platform}_mw", round(board + taken_mw), "mW")
    power, energy = _ratios(raw, OURS, board)
    b_energy = _ratios(raw, B, board)[1]
    report.add("power_ratio", round(power, 3), "")
    report.add("energy_ratio", round(energy, 3), "")
    report.add("b_energy_ratio", round(b_energy, 3), "")
    report.add(f"energy ratio, {SLOW_B}", round(_ratios(raw, SLOW_B, board)[1], 3), "")
    for dimm_mw in SWEEP_MW:
        more_mw = part_number(DRAM, "channels") * (dimm_mw - part_number(DRAM, "background_mw"))
        by_platform = {one: _ratios(raw, one, board, more_mw) for one in (OURS, B, SLOW_B)}
        at = f"{dimm_mw} mW a DIMM"
        report.add(f"power ratio, {at}", round(by_platform[OURS][0], 3), "")
        report.add(f"energy ratio, {at}", round(by_platform[OURS][1], 3), "")
        for platform in (B, SLOW_B):
            report.add(f"energy ratio, {platform}, {at}", round(by_platform[platform][1], 3), "")
    report.expect("LightPC takes less power than LegacyPC", power < 1)
    report.expect("LightPC takes less energy than LightPC-B", energy < b_energy)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    board = board_mw(raw, paper["lightpc_mw"])

    def energy(platform: str, name: str) -> float:
        return platform_pj(raw[platform][name], board) / platform_pj(raw[LEGACY][name], board)

    draw_bars(figure, energy, BESIDE_LEGACY, "energy, LegacyPC = 1",
              ("paper's mean of LightPC", paper["energy_ratio"]))  # fmt: skip

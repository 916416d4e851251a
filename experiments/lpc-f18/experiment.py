# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 18: see README.md."""

from __future__ import annotations

from statistics import mean
from typing import Any

from lab.experiment.programs import ENERGY_PJ, LEGACY, OURS, PROGRAMS, SLOW_B, B, measured
from lab.experiment.run import Context, Report
from lab.media.parts import part_number

STATIC_PJ = ENERGY_PJ[:2]  # grow with time, not with requests
DRAM = "ddr4"
# Background power of one DIMM with its share of the controller, which the table only assumes.
SWEEP_MW = (1000, 1500, 2000, 2500)


def measure(it: Context) -> dict[str, Any]:
    return measured(it)


def memory_pj(row: dict[str, int]) -> float:
    """The memory's energy for a program: of its time, and of its requests."""
    static = sum(row[name] for name in STATIC_PJ) * row["ns"] / row["guest_ns"]
    return static + sum(row[name] for name in ENERGY_PJ if name not in STATIC_PJ)


def board_mw(raw: dict[str, Any], lightpc_mw: float) -> float:
    """LightPC without its memory: what both platforms are said to have in common."""
    rows = raw[OURS].values()
    return lightpc_mw - mean(memory_pj(row) / row["ns"] for row in rows)


def platform_pj(row: dict[str, int], board: float, more_mw: float = 0) -> float:
    """*more_mw*: of the memory. A milliwatt is a picojoule a nanosecond."""
    return memory_pj(row) + (board + more_mw) * row["ns"]


def _means(
    raw: dict[str, Any], platform: str, board: float, more_mw: float = 0
) -> tuple[float, float]:
    """Power and energy of a platform over LegacyPC's, whose memory takes *more_mw* more."""
    power, energy = [], []
    for name in PROGRAMS:
        row, legacy = raw[platform][name], raw[LEGACY][name]
        ours, theirs = platform_pj(row, board), platform_pj(legacy, board, more_mw)
        energy.append(ours / theirs)
        power.append(ours / row["ns"] / (theirs / legacy["ns"]))
    return mean(power), mean(energy)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    board = board_mw(raw, paper["lightpc_mw"])
    report.add("board_mw", round(board), "mW")
    for platform in (LEGACY, OURS, B):
        rows = raw[platform].values()
        report.add(f"{platform}_memory_mw",
                   round(mean(memory_pj(row) / row["ns"] for row in rows)), "mW")  # fmt: skip
        report.add(f"{platform}_mw",
                   round(mean(platform_pj(row, board) / row["ns"] for row in rows)),
                   "mW")  # fmt: skip
    power, energy = _means(raw, OURS, board)
    report.add("power_ratio", round(power, 3), "")
    report.add("energy_ratio", round(energy, 3), "")
    report.add("b_energy_ratio", round(_means(raw, B, board)[1], 3), "")
    report.add(f"energy ratio, {SLOW_B}", round(_means(raw, SLOW_B, board)[1], 3), "")
    dimms = part_number(DRAM, "channels")
    own_mw = part_number(DRAM, "background_mw")
    for dimm_mw in SWEEP_MW:
        more_mw = dimms * (dimm_mw - own_mw)
        power, energy = _means(raw, OURS, board, more_mw)
        report.add(f"power ratio, {dimm_mw} mW a DIMM", round(power, 3), "")
        report.add(f"energy ratio, {dimm_mw} mW a DIMM", round(energy, 3), "")
        for platform, what in ((B, "LightPC-B"), (SLOW_B, SLOW_B)):
            ratio = _means(raw, platform, board, more_mw)[1]
            report.add(f"energy ratio, {what}, {dimm_mw} mW a DIMM", round(ratio, 3), "")
    report.expect("LightPC takes less power than LegacyPC", _means(raw, OURS, board)[0] < 1)
    report.expect("LightPC takes less energy than LightPC-B",
                  _means(raw, OURS, board)[1] < _means(raw, B, board)[1])  # fmt: skip


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots(1, 1)
    board = board_mw(raw, paper["lightpc_mw"])
    names, width = list(PROGRAMS), 0.27
    for number, platform in enumerate((OURS, B, SLOW_B)):
        places = [index + (number - 1) * width for index in range(len(names))]
        axes.bar(places, [platform_pj(raw[platform][name], board)
                          / platform_pj(raw[LEGACY][name], board) for name in names],
                 width, label=platform)  # fmt: skip
    axes.axhline(paper["energy_ratio"], color="black", linestyle=":",
                 label="paper's mean of LightPC")  # fmt: skip
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="energy, LegacyPC = 1")
    axes.legend(frameon=False, fontsize=7)

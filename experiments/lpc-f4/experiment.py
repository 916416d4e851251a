# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 4: see README.md."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.tapes import OBJECT, PLAIN, TRANSACTION, record, replay_modes
from lab.media.engine import Engine, memory
from lab.setup.heap import HeapProgram
from lab.setup.products import need

OPERATIONS, OPERATIONS_CI = 200_000, 10_000
# What the kernel has little of: instructions of an operation between its misses. The same modes.
WORK_INSNS = (30, 100, 300, 1000)
SWEEP_OPERATIONS_MAX = 20_000
# What the DIMM draws while it is used, beside the machine's idle DRAM: the model's draws what it
# draws idle, 3 W.
ACTIVE_W = (3, 6, 9, 12, 15)
MODES = {
    "dram_only": ("FoF", PLAIN, memory("dram")),
    "mem_mode": ("FoF", PLAIN, memory("nmem")),
    "app_mode": ("FoF", PLAIN, memory("optane")),
    "object_mode": ("FoF", OBJECT, memory("optane")),
    "trans_mode": ("FoC+UL", TRANSACTION, memory("optane")),
    "trans_mode_redo": ("FoC+RL", TRANSACTION, memory("optane")),
}


def measure(it: Context) -> dict[str, Any]:
    engine, bench = Engine.ready(), need(HeapProgram())
    operations = OPERATIONS_CI if it.is_ci else OPERATIONS
    few = min(operations, SWEEP_OPERATIONS_MAX)
    policies = {policy for policy, *_ in MODES.values()}
    with tempfile.TemporaryDirectory(prefix="rem-lpc-f4-") as name:
        folder = Path(name)
        tapes = record(bench, folder, policies, operations)
        found = replay_modes(engine, tapes, folder, MODES)
        tapes = record(bench, folder, policies, few)
        sweep = {
            str(insns): replay_modes(engine, tapes, folder, MODES, insns) for insns in WORK_INSNS
        }
    return {"operations": operations, "modes": found, "sweep_operations": few, "sweep": sweep}


def _times(modes: dict[str, Any]) -> dict[str, float]:
    """Times DRAM-only."""
    return {name: mode["time_ns"] / modes["dram_only"]["time_ns"] for name, mode in modes.items()}


def _power_beside_dram(modes: dict[str, Any], name: str, active_w: int) -> float:
    """A mode's power over mem-mode's if mem-mode's DRAM is there, too, and the DIMM draws that."""
    mem, own = modes["mem_mode"], modes[name]
    dram_mw = mem["idle_pj"] / mem["time_ns"] - own["idle_pj"] / own["time_ns"]  # pJ/ns
    requests_mw = (own["energy_pj"] - own["idle_pj"]) / own["time_ns"]
    both_mw = dram_mw + active_w * 1000 + requests_mw
    return float(both_mw * mem["time_ns"] / mem["energy_pj"])


def _judge_sweeps(raw: dict[str, Any], report: Report) -> None:
    """What makes the deviations: see README.md."""
    swept = {insns: _times(modes) for insns, modes in raw["sweep"].items()}
    for insns, times in swept.items():
        for name in ("app_mode", "object_mode", "trans_mode"):
            more = f"{name}_vs_dram_only, {insns} instructions more"
            report.add(more, round(times[name], 3), "x")
    for name in ("app_mode", "object_mode"):
        for active_w in ACTIVE_W:
            power = _power_beside_dram(raw["modes"], name, active_w)
            report.add(f"{name}_power, beside DRAM, {active_w} W", round(power, 3), "x")
        one_by_one = [times[name] for times in swept.values()]
        report.expect(
            f"{name} costs less, the more instructions are between misses",
            one_by_one == sorted(one_by_one, reverse=True),
        )


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    modes, operations = raw["modes"], raw["operations"]
    times = _times(modes)
    power = {name: mode["energy_pj"] / mode["time_ns"] for name, mode in modes.items()}
    for name, mode in modes.items():
        report.add(f"{name}_ns_per_operation", round(mode["time_ns"] / operations, 1), "ns")
        report.add(f"{name}_vs_dram_only", round(times[name], 3), "x")
        report.add(f"{name}_power", round(power[name] / power["mem_mode"], 3), "x")
        for kind in ("flushes", "fences"):
            report.count(f"{name}_{kind}", mode["counts"][kind], "")
        for key, ours in ((name, times[name]), (f"{name}_power", power[name] / power["mem_mode"])):
            if key in paper:
                report.add(f"{key}_off_percent", round((ours / paper[key] - 1) * 100, 1), "%")
    in_order = ["mem_mode", "app_mode", "object_mode", "trans_mode"]
    for fast, slow in zip(in_order, in_order[1:], strict=False):
        report.expect(
            f"{slow} takes longer than {fast} ({times[slow]:.2f}, {times[fast]:.2f} of DRAM-only)",
            times[slow] > times[fast],
        )
    report.expect(
        "transactions wait for what they write, nothing else does",
        modes["object_mode"]["counts"]["fences"] == 0
        and modes["trans_mode"]["counts"]["fences"] >= operations / 2,
    )
    report.expect(
        f"a redo log takes less than an undo log ({times['trans_mode_redo']:.2f})",
        times["trans_mode_redo"] < times["trans_mode"],
    )
    _judge_sweeps(raw, report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    base = raw["modes"]["dram_only"]["time_ns"]
    for name, mode in raw["modes"].items():
        label = name.replace("_", "-")
        axes.bar(label, mode["time_ns"] / base, color="#0072B2")
        if name in paper:
            axes.plot([label], [paper[name]], "k_", markersize=30)
    axes.set(ylabel="times DRAM-only; lines: the paper's average", yscale="log")

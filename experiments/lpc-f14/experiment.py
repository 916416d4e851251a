# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 14: see README.md."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.tapes import PLAIN, filtered, record
from lab.media.engine import Engine, memory
from lab.media.redis import redis_trace
from lab.setup.heap import HeapProgram
from lab.setup.products import need

REDIS, RISCV, TABLE = "redis", "redis, RISC-V", "hash table"
OPERATIONS, OPERATIONS_CI = 100_000, 10_000
LEGACY, OURS = "dram", "lightpc"
# The paper's range, and the clock of its prototype.
CLOCKS_MHZ = (400, 800, 1000, 1200, 1400, 1600, 1800)
RANGE_MHZ = (800, 1800)
IN_FLIGHT = (1, 4, 8)  # misses of a core; the table's is 2


def measure(it: Context) -> dict[str, Any]:
    engine, bench = Engine.ready(), need(HeapProgram())
    with tempfile.TemporaryDirectory(prefix="rem-lpc-f14-") as name:
        folder = Path(name)
        tapes = record(bench, folder, ["FoF"], OPERATIONS_CI if it.is_ci else OPERATIONS)
        traces = {TABLE: filtered(tapes["FoF"], PLAIN, folder / "table").once}
        if not it.is_ci:
            traces |= {REDIS: redis_trace(), RISCV: redis_trace("riscv64")}
        return {program: _one(engine, trace) for program, trace in traces.items()}


def _one(engine: Engine, trace: Path) -> dict[str, Any]:
    """By controller and clock; and on DRAM, at the ends of the range, by misses in flight."""
    rows: dict[str, Any] = {
        controller: {
            str(mhz): _replay(engine, trace, controller, clock_mhz=mhz) for mhz in CLOCKS_MHZ
        }
        for controller in (LEGACY, OURS)
    }
    rows["sweep"] = {
        str(misses): {
            str(mhz): _replay(engine, trace, LEGACY, clock_mhz=mhz, misses_in_flight=misses)
            for mhz in RANGE_MHZ
        }
        for misses in IN_FLIGHT
    }
    return rows


def _replay(engine: Engine, trace: Path, controller: str, **cores: float) -> dict[str, float]:
    answer = engine.ask("replay", memory=memory(controller), trace=str(trace), cores=cores)
    return {key: answer[key] for key in ("time_ns", "active_ns", "stalled_ns", "instructions")}


def _stalled_percent(one: dict[str, float]) -> float:
    """Of the cores' cycles."""
    return one["stalled_ns"] / (one["active_ns"] + one["stalled_ns"]) * 100


def _kept(rows: dict[str, Any]) -> float:
    """The share of stalls at the slow end of the range over that at the fast end."""
    slow, fast = (_stalled_percent(rows[str(mhz)]) for mhz in RANGE_MHZ)
    return slow / fast


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for program, rows in raw.items():
        stalled = {mhz: _stalled_percent(one) for mhz, one in rows[LEGACY].items()}
        for mhz, percent in stalled.items():
            report.add(f"{program}, {mhz} MHz, stalled_percent", round(percent, 2), "%")
            over = rows[OURS][mhz]["time_ns"] / rows[LEGACY][mhz]["time_ns"]
            report.add(f"{program}, {mhz} MHz, lightpc_over_legacypc", round(over, 3), "")
        report.add(f"{program}, stalls kept", round(_kept(rows[LEGACY]), 3), "")
        for misses, cases in rows["sweep"].items():
            name = f"{program}, stalls kept, {misses} misses in flight"
            report.add(name, round(_kept(cases), 3), "")
        report.expect(
            f"{program}: the faster the cores, the larger the share of stalls",
            list(stalled.values()) == sorted(stalled.values()),
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    stalls, times = figure.subplots(1, 2)
    for program, rows in raw.items():
        clocks = [int(mhz) for mhz in rows[LEGACY]]
        stalls.plot(clocks, [_stalled_percent(one) for one in rows[LEGACY].values()],
                    marker="o", label=program)  # fmt: skip
        over = [rows[OURS][mhz]["time_ns"] / one["time_ns"] for mhz, one in rows[LEGACY].items()]
        times.plot(clocks, over, marker="o", label=program)
    stalls.axvspan(*RANGE_MHZ, color="0.9", label="paper's range")
    stalls.set(xlabel="MHz", ylabel="% of cycles that wait for DRAM", ylim=(0, 100))
    times.set(xlabel="MHz", ylabel="time on LightPC over DRAM")
    for axes in (stalls, times):
        axes.legend(frameon=False, fontsize=7)

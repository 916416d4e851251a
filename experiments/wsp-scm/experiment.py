# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, section 6, memories that are slower than DRAM: see README.md."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lab.experiment.run import Context, Report
from lab.experiment.tapes import PLAIN, TRANSACTION, record, replay_modes
from lab.media.engine import Engine, memory, value
from lab.parts import part_number
from lab.setup.heap import HeapProgram
from lab.setup.products import need

OPERATIONS, OPERATIONS_CI = 50_000, 5_000
DRAM = "ddr4"
POLICIES = {
    "fof": ("FoF", PLAIN),
    "foc_ul": ("FoC+UL", TRANSACTION),
    "foc_stm": ("FoC+STM", TRANSACTION),
}
ON_COMMIT = ("foc_ul", "foc_stm")
# Writes over DRAM's. 1 is DRAM.
SLOWER = (1, 2, 5, 10, 30, 100)
READS_SLOWER = 2  # of all but DRAM
LINE_BYTES = 64
FLUSHED_BYTES = 8 << 20  # the last level of the paper's Intel machine
IN_FLIGHT = 64  # lines: queue_lines of models/parts/processors.toml


def _on(slower: int) -> dict[str, Any]:
    """DRAM, or a phase-change memory whose writes are so much slower."""
    if slower == 1:
        return memory("dram")

    def sum_ns(*names: str) -> float:
        return sum(part_number(DRAM, name) for name in names)

    outside_ns = sum_ns("controller_ns", "tburst_ns")
    read_ns = sum_ns("controller_ns", "trp_ns", "trcd_ns", "tcl_ns", "tburst_ns")
    write_ns = sum_ns("controller_ns", "trp_ns", "trcd_ns", "tcwl_ns", "tburst_ns", "twr_ns")
    change = {
        "read_ns": READS_SLOWER * read_ns - outside_ns,
        "program_ns": slower * write_ns - outside_ns,
        "cooling_ns": 0,
    }
    return memory("bare-pram", change=change)


def _flush(engine: Engine, on: dict[str, Any]) -> dict[str, float]:
    """Writing back a whole last level: time, and energy of the memory."""
    lines = FLUSHED_BYTES // LINE_BYTES
    answer = engine.ask("traffic", memory=on, read_percent=0, requests=lines, in_flight=IN_FLIGHT)
    # The job writes as many lines before, which are in its energy and not in its time.
    energy_pj = value(answer, "energy_write_pj") + value(answer, "energy_activate_pj")
    return {"time_ns": answer["time_ns"], "energy_pj": energy_pj / 2}


def measure(it: Context) -> dict[str, Any]:
    engine, bench = Engine.ready(), need(HeapProgram())
    operations = OPERATIONS_CI if it.is_ci else OPERATIONS
    modes = {
        f"{name}-{slower}": (policy, work, _on(slower))
        for name, (policy, work) in POLICIES.items()
        for slower in SLOWER
    }
    with tempfile.TemporaryDirectory(prefix="rem-wsp-scm-") as name:
        folder = Path(name)
        tapes = record(bench, folder, [policy for policy, _ in POLICIES.values()], operations)
        found = replay_modes(engine, tapes, folder, modes)
    return {
        "operations": operations,
        "modes": found,
        "flushes": {str(slower): _flush(engine, _on(slower)) for slower in SLOWER},
    }


def _over_fof(raw: dict[str, Any], name: str, slower: int, key: str) -> float:
    modes = raw["modes"]
    return float(modes[f"{name}-{slower}"][key] / modes[f"fof-{slower}"][key])


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for name in ON_COMMIT:
        for slower in SLOWER:
            for key, what in (("time_ns", "time"), ("energy_pj", "energy")):
                ratio = round(_over_fof(raw, name, slower, key), 2)
                report.add(f"{name} over fof, {what}, {slower}", ratio, "x")
        first, *others = (_over_fof(raw, name, slower, "time_ns") for slower in SLOWER)
        for slower, ratio in zip(SLOWER[1:], others, strict=True):
            if paper["writes_slower"][0] <= slower <= paper["writes_slower"][1]:
                report.expect(
                    f"{name}: flush-on-fail gains more than on DRAM where writes take "
                    f"{slower} times as long ({ratio:.1f}, {first:.1f})",
                    ratio > first,
                )
    for slower, one in raw["flushes"].items():
        report.add(f"flush_ns, {slower}", round(one["time_ns"]), "ns")
        report.add(f"flush_energy_pj, {slower}", round(one["energy_pj"]), "pJ")
    for window_ms in paper["windows_ms"]:
        fits = [int(slower) for slower, one in raw["flushes"].items()
                if one["time_ns"] <= window_ms * 10**6]  # fmt: skip
        report.add(f"slowest_within_{window_ms}_ms", max(fits, default=0), "x")
    dram, *slow = (raw["flushes"][str(slower)] for slower in SLOWER)
    report.expect(
        "the flush of the caches takes more of the memory's energy than on DRAM",
        all(one["energy_pj"] > dram["energy_pj"] for one in slow),
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    gain, flush = figure.subplots(1, 2)
    for name in ON_COMMIT:
        ratios = [_over_fof(raw, name, slower, "time_ns") for slower in SLOWER]
        gain.plot(SLOWER, ratios, marker="o", label=POLICIES[name][0])
    gain.axvspan(*paper["writes_slower"], color="0.9", label="paper: phase-change memory")
    gain.set(xscale="log", yscale="log", xlabel="write latency over DRAM's; 1 is DRAM",
             ylabel="time over FoF's")  # fmt: skip
    gain.legend(frameon=False, fontsize=7)
    flush.plot(SLOWER, [one["time_ns"] / 1e6 for one in raw["flushes"].values()], marker="o")
    for window_ms in paper["windows_ms"]:
        flush.axhline(window_ms, color="black", linewidth=0.8, linestyle=":")
    flush.set(xscale="log", yscale="log", xlabel="write latency over DRAM's",
              ylabel="ms to write 8 MiB back; dotted: hold-ups")  # fmt: skip

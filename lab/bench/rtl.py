# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench media --rtl`: the memory controller in RTL beside its model, request by request."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.media.engine import Engine
from lab.messages import info
from lab.result import Result
from lab.rtl import scenarios
from lab.rtl.coverage import STATES, Coverage
from lab.rtl.drive import Outcome, Plan, drive
from lab.setup.products import need
from lab.setup.psm_area import PsmArea
from lab.setup.psm_bench import PsmBench

REQUESTS = 1_000_000
CHUNK_REQUESTS = 2_000_000  # at once; the gap wraps around in so many
TIME_ERROR_MAX_PERCENT = 3.0
PAPER_REGISTER_BYTES = 64  # LightPC, section VIII: less than


def run(requests: int, trace: Path | None) -> Result:
    """Compare random requests, or a recorded trace, and what else can happen to a controller."""
    result = Result("bench-media-rtl")
    bench, area = need(PsmBench(), PsmArea())
    engine = Engine.ready()
    totals = _Totals()
    if trace is not None:
        plans = [("recorded", scenarios.recorded(trace.read_bytes()))]
        totals.add_all(bench, engine, plans)
    else:
        for seed, count in enumerate(chunks(requests), 1):
            totals.add_all(bench, engine, [("paper", scenarios.paper(count, seed))])
    timed = totals.timed
    small = scenarios.small()
    totals.add_all(bench, engine, [(name, it) for name, it in small.items() if name != "paper"])
    coverage = cover(small, engine)
    for line in totals.found:
        info(line)
    result.add("content_unequal", totals.content_unequal, "", "counted")
    result.add("cycles_unexplained", totals.cycles_unexplained, "cycles", "counted")
    result.add("time_error_percent", round(timed.time_error_percent, 3), "%", "counted")
    result.add("rtl_requests", totals.requests, "", "counted")
    result.add("rtl_cycles", totals.cycles, "cycles", "counted")
    result.add("rtl_khz", round(totals.cycles / totals.took_s / 1e3, 1), "kHz", "native")
    result.add("rtl_read_mean_ns", round(timed.read_ns[0], 2), "ns", "counted")
    result.add("model_read_mean_ns", round(timed.read_ns[1], 2), "ns", "modelled")
    result.add("rtl_write_mean_ns", round(timed.write_ns[0], 2), "ns", "counted")
    result.add("model_write_mean_ns", round(timed.write_ns[1], 2), "ns", "modelled")
    result.add("lane_cycles", totals.lane_cycles, "cycles", "counted")
    result.add("queue_cycles", totals.queue_cycles, "cycles", "counted")
    result.add("rtl_moves", totals.moves, "", "counted")
    result.add("rtl_machine_checks", totals.machine_checks, "", "counted")
    result.add("coverage_lines_percent", round(coverage.percent, 1), "%", "counted")
    result.add("coverage_states", len(coverage.states), f"of {STATES}", "counted")
    # On an FPGA of 28 nm; the path is through cells only, without wires.
    result.add("area_luts", area.luts, "", "counted")
    result.add("area_flip_flops", area.flip_flops, "", "counted")
    result.add("area_block_rams", area.block_rams, "", "counted")
    result.add("area_lut_rams", area.lut_rams, "", "counted")
    result.add("longest_path_ns", round(area.longest_path_ns, 2), "ns", "modelled")
    result.add("clock_max_mhz", round(1e3 / area.longest_path_ns, 1), "MHz", "modelled")
    result.add("register_bytes", area.register_bytes, "bytes", "counted")
    result.add("paper_register_bytes", PAPER_REGISTER_BYTES, "bytes", "counted")
    result.ok = (
        area.register_bytes < PAPER_REGISTER_BYTES
        and not totals.found
        and timed.time_error_percent <= TIME_ERROR_MAX_PERCENT
    )
    return result


def chunks(requests: int) -> list[int]:
    """So many requests in runs that a host's memory holds."""
    whole, rest = divmod(requests, CHUNK_REQUESTS)
    return [CHUNK_REQUESTS] * whole + ([rest] if rest else [])


def cover(plans: dict[str, Plan], engine: Engine) -> Coverage:
    """Lines that these plans run, in the slower program that counts them."""
    bench = need(PsmBench(coverage=True))
    coverage = Coverage()
    for plan in plans.values():
        with tempfile.TemporaryDirectory(prefix="rem-rtl-") as name:
            counters = Path(name) / "coverage.dat"
            outcome = drive(bench, engine, plan, Path(name), "--coverage", str(counters))
            coverage.add(counters)
            coverage.states |= outcome.states
    if coverage.missed:
        info(f"lines that never ran: {', '.join(coverage.missed)}")
    return coverage


class _Totals:
    """Sums over runs; `timed` is the last one with the paper's leveler or of a recorded trace."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.content_unequal = self.cycles_unexplained = self.requests = self.cycles = 0
        self.lane_cycles = self.queue_cycles = self.moves = self.machine_checks = 0
        self.took_s = 0.0
        self.worst: Outcome | None = None

    @property
    def timed(self) -> Outcome:
        assert self.worst is not None
        return self.worst

    def add_all(self, bench: Path, engine: Engine, plans: list[tuple[str, Plan]]) -> None:
        for name, plan in plans:
            info(f"{name}: {plan.records:,} requests")
            with tempfile.TemporaryDirectory(prefix="rem-rtl-") as folder:
                outcome = drive(bench, engine, plan, Path(folder))
            self._add(name, outcome)

    def _add(self, name: str, outcome: Outcome) -> None:
        it = outcome.comparison
        self.found += [f"{name}: {line}" for line in it.found]
        self.content_unequal += it.content_unequal
        self.cycles_unexplained += it.cycles_unexplained
        self.requests += it.requests
        self.lane_cycles += it.lane_cycles
        self.queue_cycles += it.queue_cycles
        self.cycles += outcome.rtl.get("cycles", 0)
        self.took_s += outcome.rtl.get("took_s", 0.0)
        self.moves += outcome.rtl.get("moves", 0)
        self.machine_checks += outcome.rtl.get("machine_checks", 0)
        if name in {"paper", "recorded"} and (
            self.worst is None or outcome.time_error_percent > self.worst.time_error_percent
        ):
            self.worst = outcome

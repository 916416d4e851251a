# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run of both subjects: the RTL's bench, then the model at the moments of the RTL's requests.

Neither sees the other's answers. What both are given is a trace of requests, settings of the
leveler and, for a run with faults, the cells to break.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lab import format as fmt
from lab import psm_parameters as parameters
from lab.errors import RemError
from lab.media.engine import Engine, memory
from lab.media.tape import IDLE, RECORD_BYTES, requests
from lab.rtl.compare import (
    READ,
    WRITE,
    Comparison,
    compare_answers,
    compare_media,
    compare_registers,
    lines_in_order,
    read_table,
)
from lab.run import run
from lab.setup.psm_bench import BITS

LINES = 1 << BITS
HEADER_BYTES = fmt.size_of("rem_trace_header")
IN_FLIGHT = 16
RUN_LIMIT_S = 3 * 3600.0


@dataclass(frozen=True)
class Plan:
    """What is asked of both."""

    trace: bytes
    in_flight: int = IN_FLIGHT
    pauses: bool = True
    gap_every: int = 100  # LightPC, section VIII
    swap_every: int = 0
    seed: int = 1
    faults: tuple[tuple[int, int, int, int], ...] = ()  # place, piece, byte, mask
    sweep: bool = False  # every line is read at the end
    reset: bool = False
    power_fail: bool = False  # instead of the flush port at the end

    @property
    def records(self) -> int:
        """Of the trace."""
        return (len(self.trace) - HEADER_BYTES) // RECORD_BYTES


@dataclass
class Outcome:
    """What came of it. Times of the host model are with the table's own numbers."""

    comparison: Comparison
    rtl: dict[str, Any]
    rtl_cycles: float = 0.0
    model_cycles: float = 0.0
    read_ns: tuple[float, float] = (0.0, 0.0)  # RTL, model
    write_ns: tuple[float, float] = (0.0, 0.0)
    states: set[int] = field(default_factory=set)

    @property
    def time_error_percent(self) -> float:
        """The largest of: the whole run, a mean read, a mean write."""
        pairs = ((self.rtl_cycles, self.model_cycles), self.read_ns, self.write_ns)
        return max((abs(a / b - 1) * 100 for a, b in pairs if b), default=0.0)


def drive(bench: Path, engine: Engine, plan: Plan, folder: Path, *more: str) -> Outcome:
    """Run both in a folder, and compare. *more* are words for the bench."""
    trace, log, media = folder / "requests.trace", folder / "rtl.log", folder / "rtl.media"
    trace.write_bytes(plan.trace)
    argv: list[str | Path] = [bench, "--trace", trace, "--log", log, "--media", media]
    argv += ["--in-flight", str(plan.in_flight), "--gap-every", str(plan.gap_every)]
    argv += ["--swap-every", str(plan.swap_every), "--seed", str(plan.seed)]
    words = {"--pauses": plan.pauses, "--sweep": plan.sweep, "--reset": plan.reset}
    words["--power-fail"] = plan.power_fail
    argv += [word for word, on in words.items() if on]
    faults = folder / "faults"
    if plan.faults:
        rows = (" ".join(map(str, fault)) for fault in plan.faults)
        faults.write_text("\n".join(rows) + "\n", encoding="ascii")
        argv += ["--faults", faults]
    done = run([*argv, *more], check=False, timeout_s=RUN_LIMIT_S, what="psm-bench")
    if not done.ok:
        result = Comparison()
        result.differs("no-answer", 1, done.stderr.strip())
        return Outcome(result, {})
    rtl: dict[str, Any] = json.loads(done.stdout)
    answers = folder / "model.log"
    model_media = folder / "model.media"
    job: dict[str, Any] = {
        "lines": LINES,
        "swap_writes": plan.swap_every,
        "cycle_ns": parameters.clock_ns(),
        "trace": str(trace),
        "in_flight": plan.in_flight,
        "pauses": plan.pauses,
        "wear_seed": plan.seed,
    }
    setting = {"threshold_writes": plan.gap_every}
    model = engine.ask(
        "requests",
        memory=memory("lightpc", change=parameters.in_cycles(), **setting),
        schedule=str(log),
        log=str(answers),
        media=str(model_media),
        faults=str(faults) if plan.faults else None,
        **job,
    )
    result = Comparison()
    outcome = Outcome(result, rtl, states=set(rtl["states"]))
    asked, said = read_table(log), read_table(model_media)
    # The model repairs in no time of its own.
    timed = not plan.faults
    compare_answers(asked, read_table(answers), result, timed)
    compare_media(read_table(media), said, LINES + 1, result)
    compare_registers(rtl, model, result, timed)
    kinds, lines = requests(plan.trace, str(trace))
    lines = lines[kinds != IDLE] % np.uint64(LINES)
    lines_in_order(asked, lines, result)
    if timed and result.ok:
        host = engine.ask("requests", memory=memory("lightpc", **setting), **job)
        _times(outcome, asked, len(lines), host)
    return outcome


def _times(outcome: Outcome, asked: dict[str, Any], requests: int, host: dict[str, Any]) -> None:
    of_trace = asked["index"] < requests
    issue, done = asked["issue"].astype(np.int64), asked["done"].astype(np.int64)
    if not of_trace.any():
        raise RemError("a trace without requests")
    clock_ns = parameters.clock_ns()
    outcome.rtl_cycles = float(done[of_trace].max() - issue[of_trace].min())
    outcome.model_cycles = host["until_ns"] / clock_ns
    took = (done - issue) * clock_ns
    means = []
    for kind in (READ, WRITE):
        mine = of_trace & (asked["kind"] == kind)
        means.append(float(took[mine].mean()) if mine.any() else 0.0)
    outcome.read_ns = (means[0], host["read_mean_ns"])
    outcome.write_ns = (means[1], host["write_mean_ns"])

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench media --peer`: our model of DRAM beside DRAMsim3, on the same requests.

Both get the same part: organisation and times (models/memory/peer/src/timing.rs). A case says how
far they may be apart, and why. Three kinds of cases: with the gates that our model has, where they
must be close; the same with the times of a PRAM in place of the cells; and with those gates of
JESD79-4, too, which our model does not have, so that it is known what they cost. Beside them, what
Mess has measured of a machine with the DRAM of another part.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from lab.errors import RemError, UsageError
from lab.media.engine import Engine, memory
from lab.messages import info
from lab.parts import part_number
from lab.result import Result
from lab.run import run as run_process

Pattern = Literal["sequential", "random", "row-conflict"]
PART = "ddr4-2933"
LINES = 1 << 20
REQUESTS = 20_000
# Writes that the peer accepts before one is done: 32 in its buffer, 8 for each of 16 banks.
WRITES_TAKEN = 32 + 8 * 16
HALF_LOAD_NS, LOW_LOAD_NS = 16.0, 60.0  # between two requests of one channel
# The peer's cells as those of a PRAM: long to read and to write, without refresh.
PRAM: dict[str, float] = {
    "trcd_ns": part_number("lpc-table1", "read_ns"),
    "twr_ns": part_number("lpc-table1", "program_ns") + part_number("lpc-table1", "cooling_ns"),
    "trefi_ns": 1e9,
}

QUEUES = "the peer has queues of a cycle each, three of them"
ORDER = "the peer serves hits and free banks first, ours in the order of requests"
BATCHES = "the peer writes in batches while reads wait, ours where they come"
ONE_BANK = "nothing can be reordered: only the peer's queues differ"
# Many requests wait for what a channel shares. The peer's younger ones may go first, and its host
# then waits for the oldest with fewer under way; ours all wait, and each takes as much longer.
YOUNGER = "the peer gives tFAW and bank groups to younger requests, ours in the order of requests"
TURN = f"tWTR, which ours does not have, makes the bus wait after each batch; {YOUNGER}"


# What Mess measured of six channels of DDR4-2666 behind the caches of a Skylake server, 78 % reads
# (Esmaili-Dokht et al., MICRO 2024): bytes a nanosecond and nanoseconds of a read, two points of
# bsc-mem/Mess-simulator, memory_curve/skylake-ddr4/bwlat_78.txt, and the most bandwidth of it. The
# third number is how far ours may be apart, in percent. Our requests are all random: each opens a
# row, of which tFAW allows 73 bytes a nanosecond. The load of Mess finds rows open: with a third of
# its bandwidth in use ours wait longer, and the most of it is between ours of random requests and
# ours of streams.
MESS_READ_PERCENT = 78
MESS_CURVE = ((0.08, 65.6, 10.0), (33.0, 76.9, 20.0))
MESS_BANDWIDTH_MAX = 101.0


@dataclass(frozen=True)
class Case:
    """Requests, and how far the two may be apart, in percent of the peer."""

    name: str
    pattern: Pattern | None
    why: str
    bandwidth_percent: float
    latency_percent: float
    rows_percent: float = 1.0
    read_percent: int = 100
    in_flight: int = 32
    gap_ns: float = 0.0
    channels: int = 1
    gates: Literal["own", "all"] = "own"
    change: dict[str, float] = field(default_factory=dict)
    requests: int = REQUESTS

    def job(self) -> dict[str, Any]:
        """For the program, without a trace."""
        traffic: dict[str, Any] = {
            "requests": self.requests,
            "read_percent": self.read_percent,
            "in_flight": self.in_flight,
            "gap_ns": self.gap_ns,
        }
        if self.pattern is None:
            traffic["workload"] = "Redis"
        else:
            traffic["pattern"] = self.pattern
        return {
            "part": PART,
            "change": {"channels": self.channels, **self.change},
            "gates": self.gates,
            "lines": LINES,
            "traffic": traffic,
        }


# In one row after another, at any place, or always in another row of one bank. A latency is
# compared where there are reads.
CASES = (
    Case("sequential reads", "sequential", YOUNGER, 3, 13),
    Case("sequential reads, low load", "sequential", QUEUES, 0.5, 6.5, gap_ns=LOW_LOAD_NS),
    Case("sequential, a third writes", "sequential", BATCHES, 9, 4, 1, 67, 8),
    Case("random reads, one at a time", "random", QUEUES, 4.5, 3, in_flight=1),
    Case("random reads, half load", "random", ORDER, 0.5, 8, gap_ns=HALF_LOAD_NS),
    Case("random reads", "random", YOUNGER, 5, 26),
    Case("random, a third writes", "random", BATCHES, 12, 9, 1, 67, 8),
    Case("random writes", "random", ORDER, 9.5, 0, 1.5, 0, WRITES_TAKEN),
    Case("one bank, reads", "row-conflict", ONE_BANK, 1, 1, in_flight=8),
    Case("one bank, a third writes", "row-conflict", ONE_BANK, 1, 3, 1, 67, 8),
    Case("redis", None, BATCHES, 1, 8, 1, gap_ns=8.0, channels=2),
    Case("PRAM, sequential reads", "sequential", QUEUES, 1, 3, change=PRAM),
    Case("PRAM, random reads", "random", ORDER, 4, 3, change=PRAM),
    Case("PRAM, one bank, a third writes", "row-conflict", ONE_BANK, 1, 2, 1, 67, 8, change=PRAM),
    Case("all gates, one at a time", "random", QUEUES, 4.5, 3, in_flight=1, gates="all"),
    Case("all gates, low load", "random", QUEUES, 0.5, 8, gap_ns=LOW_LOAD_NS, gates="all"),
    Case("all gates, half load", "random", ORDER, 0.5, 8, gap_ns=HALF_LOAD_NS, gates="all"),
    Case("all gates, sequential reads", "sequential", YOUNGER, 3, 13, gates="all"),
    Case("all gates, random reads", "random", YOUNGER, 5, 26, gates="all"),
    Case("all gates, a third writes", "random", TURN, 14, 26, 1, 67, gates="all"),
)


@dataclass(frozen=True)
class Apart:
    """How far ours is above the peer, in percent of it."""

    bandwidth_percent: float
    latency_percent: float | None
    rows_percent: float
    refreshes: int

    @staticmethod
    def of(answer: dict[str, Any]) -> Apart:
        ours, theirs = answer["ours"], answer["theirs"]

        def percent(name: str) -> float:
            return float((ours[name] / theirs[name] - 1) * 100)

        return Apart(
            percent("bandwidth_bytes_per_ns"),
            percent("read_mean_ns") if ours["reads"] else None,
            percent("activations"),
            ours["refreshes"] - theirs["refreshes"],
        )


def verdicts(case: Case, answer: dict[str, Any]) -> list[str]:
    """What is further apart than the case says; empty if nothing is."""
    apart = Apart.of(answer)
    found = {
        "bandwidth": abs(apart.bandwidth_percent) > case.bandwidth_percent,
        "latency": apart.latency_percent is not None
        and abs(apart.latency_percent) > case.latency_percent,
        "rows": abs(apart.rows_percent) > case.rows_percent,
        "refreshes": apart.refreshes != 0,
    }
    return [name for name, is_broken in found.items() if is_broken]


def ask(program: Path, do: str, **job: Any) -> dict[str, Any]:
    """The program's answer to a job; a wrong job is a UsageError of one line."""
    with tempfile.TemporaryDirectory(prefix="rem-peer-") as folder:
        text = json.dumps({"do": do, "folder": folder, **job})
        done = run_process([program, "-"], stdin=text, check=False, what=program.name)
    if done.returncode == 2:
        raise UsageError(done.stderr.strip().removeprefix(f"{program.name}: "))
    # The peer prints to stdout, too: the answer is the last line.
    last = (done.stdout.strip().splitlines() or [""])[-1]
    try:
        answer: dict[str, Any] = json.loads(last)
    except ValueError as error:
        why = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0]
        raise RemError(f"{program.name} gave no answer to {text}: {why}") from error
    return answer


def compare(
    program: Path, case: Case, trace: Path | None = None, mutant: str = ""
) -> dict[str, Any]:
    """Both sides' answers to a case; with a *trace* its requests are those."""
    job = case.job()
    if trace is not None:
        job["traffic"] = {**job["traffic"], "trace": str(trace)}
        del job["traffic"]["workload"]
    return ask(program, "compare", mutant=mutant, **job)


def curve(engine: Engine, pattern: Literal["random", "sequential"]) -> list[tuple[float, float]]:
    """Bandwidth and latency of our DDR4-2666 with ever more requests under way."""
    found = []
    for in_flight in (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048):
        answer = engine.ask(
            "traffic",
            memory=memory("dram"),
            pattern=pattern,
            read_percent=MESS_READ_PERCENT,
            in_flight=in_flight,
        )
        found.append((answer["bandwidth_bytes_per_ns"], answer["read_mean_ns"]))
    return found


def latency_at(points: list[tuple[float, float]], bytes_per_ns: float) -> float:
    """The latency of a curve at a bandwidth, between its two nearest points."""
    if bytes_per_ns <= points[0][0]:
        return points[0][1]
    for (from_bw, from_ns), (to_bw, to_ns) in pairwise(points):
        if from_bw < bytes_per_ns <= to_bw:
            return from_ns + (to_ns - from_ns) * (bytes_per_ns - from_bw) / (to_bw - from_bw)
    raise RemError(f"no bandwidth of {bytes_per_ns} bytes/ns was reached: {points[-1]}")


def beside_mess(engine: Engine, result: Result) -> int:
    """Our curve beside the measured one; how many points are further apart than explained."""
    points = curve(engine, "random")
    missed = 0
    for bandwidth, measured_ns, percent_max in MESS_CURVE:
        percent = (latency_at(points, bandwidth) / measured_ns - 1) * 100
        result.add(f"Mess, {bandwidth} B/ns: latency", round(percent, 1), "%", "modelled")
        missed += abs(percent) > percent_max
    streams = curve(engine, "sequential")
    least, most = (
        (max(bandwidth for bandwidth, _ in found) / MESS_BANDWIDTH_MAX - 1) * 100
        for found in (points, streams)
    )
    result.add("Mess: most bandwidth", round(least, 1), "%", "modelled")
    result.add("Mess: most bandwidth of streams", round(most, 1), "%", "modelled")
    return missed + (not least <= 0 <= most)


def run(program: Path, trace: Path | None) -> Result:
    """All cases; a *trace* takes the place of the workload redis."""
    result = Result("bench-media-peer")
    missed = 0
    for case in CASES:
        chosen = trace if case.pattern is None else None
        answer = compare(program, case, chosen)
        apart = Apart.of(answer)
        for name, percent in (
            ("bandwidth", apart.bandwidth_percent),
            ("latency", apart.latency_percent),
        ):
            if percent is not None:
                result.add(f"{case.name}: {name}", round(percent, 1), "%", "modelled")
        result.add(f"{case.name}: rows opened", round(apart.rows_percent, 1), "%", "counted")
        broken = verdicts(case, answer)
        missed += len(broken)
        for name in broken:
            info(f"{case.name}: {name} is further from the peer's than explained by: {case.why}")
    beyond = beside_mess(Engine.ready(), result)
    if beyond:
        info(
            f"{beyond} points of the curve that Mess measured are further from ours than explained"
        )
    missed += beyond
    result.add("cases", len(CASES), "", "counted")
    result.add("not_explained", missed, "", "counted")
    result.ok = missed == 0
    return result

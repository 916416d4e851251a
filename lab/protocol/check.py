# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Questions to the model of the protocol: does every cut keep the promises, is each planted bug
found, and is a recording of a machine a behaviour of the model?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import run
from lab.errors import InfraError, UsageError
from lab.messages import info
from lab.progress import step
from lab.result import Result
from lab.setup.products import need
from lab.setup.protocol import Protocol

BOOTS = 4
LIMIT_S = 3600.0
RECORDING = "recording.bin"


@dataclass(frozen=True)
class Plan:
    """What is checked. *boots*: power-ons and resets of each machine."""

    boots: int = BOOTS
    mutants: bool = True
    recordings: tuple[Path, ...] = ()


def run_plan(plan: Plan) -> Result:
    """Check the model, its planted bugs and the recordings; print what is wrong."""
    result = Result("model")
    machines = list(_checked(plan.boots))
    result.add("boots", plan.boots, "", "counted")
    result.add("machines", len(machines), "", "counted")
    result.add("states", sum(int(machine["states"]) for machine in machines), "", "counted")
    violations = sum(len(machine["broken"]) for machine in machines)
    result.add("violations", violations, "", "counted")
    missed = 0
    if plan.mutants:
        planted = list(_planted(plan.boots))
        missed = sum(not bug["found"] for bug in planted)
        result.add("mutants", len(planted), "", "counted")
        result.add("mutants_missed", missed, "", "counted")
    refused = add_traces(result, plan.recordings)
    result.ok = violations == missed == refused == 0
    return result


def add_traces(result: Result, recordings: Iterable[Path]) -> int:
    """Add how many recordings are behaviours of the model; return how many are not."""
    followed = follow(recordings)
    refused = sum(line["refused"] is not None for line in followed)
    result.add("traces", len(followed), "recordings", "counted")
    result.add("traces_refused", refused, "recordings", "counted")
    result.ok = result.ok and not refused
    return refused


def follow(recordings: Iterable[Path]) -> list[dict[str, Any]]:
    """One line for each recording: its visible steps, and why it is refused."""
    files = [str(recording / RECORDING) for recording in recordings]
    if not files:
        return []
    lines = list(_lines("trace", *files))
    for line in lines:
        if line["refused"] is not None:
            info(f"model: {line['recording']} is no behaviour of the protocol: {line['refused']}")
        elif not line["steps"]:
            raise UsageError(
                f"{line['recording']} has no step of the protocol: record with windows"
            )
    return lines


def _checked(boots: int) -> Iterator[dict[str, Any]]:
    with step("model: states of each machine", unit="machines") as shown:
        for machine in _lines("check", "--boots", str(boots)):
            shown.advance()
            info(f"model: {machine['machine']}: {machine['states']:,} states")
            for name, steps in machine["broken"].items():
                info(f"model: {machine['machine']}: {name} is broken by {'; '.join(steps)}")
            yield machine


def _planted(boots: int) -> Iterator[dict[str, Any]]:
    with step("model: planted bugs", unit="bugs") as shown:
        for bug in _lines("mutants", "--boots", str(boots)):
            shown.advance()
            if not bug["found"]:
                others = ", ".join(bug["broken"]) or "nothing"
                info(f"model: {bug['mutant']} should break {bug['breaks']}, and breaks {others}")
            yield bug


def _lines(*words: str) -> Iterator[dict[str, Any]]:
    done = run.run([need(Protocol()), *words], check=False, timeout_s=LIMIT_S)
    if not done.ok:
        raise InfraError(done.stderr.strip() or f"rem-protocol ended with {done.returncode}")
    for line in done.stdout.splitlines():
        yield json.loads(line)

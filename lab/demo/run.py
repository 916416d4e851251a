# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Plays the whole demonstration on a machine and leaves its page."""

from __future__ import annotations

import time
from pathlib import Path

from lab.demo import loss, story, verdict
from lab.demo.outcome import Outcome
from lab.demo.story import Plan
from lab.demo.workload import Workload
from lab.errors import InfraError
from lab.machine import Machine, MachineState
from lab.machine.cut_points import attach_cut_points
from lab.report.demo_page import page


def play(machine: Machine, plan: Plan, outcome: Outcome) -> None:
    """From power on to the last check. Errors of the surroundings are raised, not judged."""
    begin_s = time.monotonic()
    outcome.caches = machine.config.caches
    attach_cut_points(machine)
    with Workload(machine, plan.size) as work:
        story.boot(machine, outcome)
        before = story.load(machine, work, plan, outcome)
        record = story.cut(machine, work, before, plan, outcome)
        if plan.no_flush is not None:
            loss.judge(machine, work, before, record, plan, outcome)
        elif story.go(machine, plan, outcome):
            verdict.check_all(machine, work, before, plan, outcome)
        else:
            verdict.all_lost(before, outcome)
    outcome.result.add("took_ns", round((time.monotonic() - begin_s) * 1e9), "ns", "native")


def end(outcome: Outcome) -> None:
    """The last lines: what was kept, and what all this does not show."""
    kept = sum(check.ok for check in outcome.checks)
    outcome.tell(f"{kept} of {len(outcome.checks)} promises kept.")
    outcome.tell("Lost in the cut, and brought back:")
    for line in outcome.modelled():
        outcome.tell(f"  - {line}")
    outcome.tell("Not modelled:")
    for line in outcome.not_modelled():
        outcome.tell(f"  - {line}")


def leave(machine: Machine) -> None:
    """For --keep: stopped in order, so that `rem resume` goes on."""
    if machine.state is MachineState.RUNNING:
        machine.cut()


def write_page(outcome: Outcome, path: Path) -> None:
    picture = None
    if outcome.timeline is not None:
        from lab.report.timeline_picture import svg

        picture = svg(outcome.timeline)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(outcome, picture), encoding="utf-8")
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error
    outcome.tell(f"Page: {path}")

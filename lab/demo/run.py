# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the whole demonstration on a machine and writes its page."""

from __future__ import annotations

import time
from pathlib import Path

from lab.demo import loss, story, verdict
from lab.demo.outcome import Outcome
from lab.demo.page import page
from lab.demo.story import Plan
from lab.errors import InfraError, RemError
from lab.machine import Machine, MachineState
from lab.machine.cut_points import attach_cut_points
from lab.testbed.workload import Workload


def play(machine: Machine, plan: Plan, outcome: Outcome) -> None:
    """From power on to the last check. Errors of the environment are raised, not counted."""
    begin_s = time.monotonic()
    outcome.caches, outcome.no_flush = machine.config.caches, plan.no_flush
    attach_cut_points(machine)
    with Workload(machine, plan.size) as work:
        story.boot(machine, outcome)
        before = story.load(machine, work, plan, outcome)
        record = story.cut(machine, work, before, plan, outcome)
        if plan.no_flush is not None:
            loss.check(machine, work, before, record, plan, outcome)
        elif story.go(machine, plan, outcome):
            verdict.check_all(machine, work, before, plan, outcome)
        else:
            verdict.all_lost(before, outcome)
    outcome.result.add("took_ns", round((time.monotonic() - begin_s) * 1e9), "ns", "native")


def end(outcome: Outcome) -> None:
    """Print the last lines: what was kept, and what all this does not show."""
    kept = sum(check.ok for check in outcome.checks)
    outcome.print_line(f"{kept} of {len(outcome.checks)} checks passed.")
    outcome.result.add("promises", len(outcome.checks), "promises", "counted")
    outcome.result.add("promises_kept", kept, "promises", "counted")
    outcome.print_line("Lost in the cut:")
    for line in outcome.modelled():
        outcome.print_line(f"  - {line}")
    outcome.print_line("Not modelled:")
    for line in outcome.not_modelled():
        outcome.print_line(f"  - {line}")


def leave(machine: Machine) -> None:
    """For --keep: stopped, so that `rem resume` can resume it."""
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
    outcome.print_line(f"Page: {path}")


def draw_picture(outcome: Outcome, path: Path) -> None:
    """Write the picture of the Stop and the Go."""
    if outcome.timeline is None:
        raise RemError(f"cannot draw {path}: the record has no timeline of a Stop")
    from lab.report.timeline_picture import draw

    draw(outcome.timeline, path)
    outcome.print_line(f"Picture: {path}")

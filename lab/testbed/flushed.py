# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An inner check: after a Stop nothing is lost but dead stacks, by name and not by number."""

from __future__ import annotations

from lab.lost_lines.report import loss_of
from lab.lost_lines.source import source_of_machine
from lab.lost_lines.stopped import strays
from lab.machine import Machine
from lab.verdict import BrokenError

SHOWN = 8


def check_only_dead_stacks_differ(machine: Machine) -> None:
    """A machine with volatile caches that has stopped, before power returns."""
    source = source_of_machine(machine.files, machine.config)
    assert source is not None, "the cut left no view of memory"
    loss = loss_of(source)
    found = strays(source, loss)
    if found:
        lines = [f"{line.owner.kind} {line.owner.name} by {line.writer}" for line in found]
        raise BrokenError(
            "differs",
            f"{len(found)} of {len(loss.lines)} lines that differ are in no dead stack:"
            f" {'; '.join(lines[:SHOWN])}",
        )

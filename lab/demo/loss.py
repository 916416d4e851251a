# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The negative proof of the demonstration: with Stop's flushes disabled, is the loss detected?

Two checks that share nothing. The digest: at each flush of a Stop the plugin sums up the lines
that the flush should have written, and at the end the same lines as media has them. And the
workload: the machine is resumed, and every promise is checked as usual.
"""

from __future__ import annotations

from lab.demo import story, verdict
from lab.demo.outcome import Outcome
from lab.demo.story import Before, Plan
from lab.errors import RemError
from lab.machine import CutRecord, Machine
from lab.machine.caches import is_lost
from lab.testbed.workload import Workload

# A kernel that lost its data crashes at once or never answers.
ANSWER_LIMIT_S = 60.0


def check(
    machine: Machine,
    work: Workload,
    before: Before,
    record: CutRecord,
    plan: Plan,
    outcome: Outcome,
) -> None:
    """The proof holds when both checks detect the loss."""
    caches = record.caches or {}
    lost = caches.get("lost_lines", 0)
    digest_detects = is_lost(record.caches)
    outcome.result.add("lost_lines", lost, "lines", "counted")
    outcome.check(
        "the digest detects that lines are lost",
        digest_detects,
        f"{lost} lines; due {caches.get('digest_due', 0):016x}, "
        f"on media {caches.get('digest_media', 0):016x}",
    )
    found = _workload_finds(machine, work, before, plan, outcome)
    if plan.no_flush == "all":
        outcome.check("the loader refuses the image", bool(found), found)
    else:
        outcome.check("the workload's checks detect the loss", bool(found), found)
    outcome.result.add("detected", int(digest_detects and bool(found)), "proofs", "counted")


def _workload_finds(
    machine: Machine, work: Workload, before: Before, plan: Plan, outcome: Outcome
) -> str:
    """The first promise that was broken after power returned; empty if none was."""
    inner = Outcome(outcome.print_line)
    try:
        if story.go(machine, plan, inner):
            machine.wait_resumed(ANSWER_LIMIT_S)
            verdict.check_all(machine, work, before, plan, inner)
        else:
            verdict.all_lost(before, inner)
    except RemError as error:
        inner.check("the machine resumes", False, error.message)
    return f"{inner.broken[0].name}: {inner.broken[0].detail}" if inner.broken else ""

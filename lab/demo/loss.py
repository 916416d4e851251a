# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The other end of the demonstration: Stop's flushes had no effect. Is it noticed, and by whom?

Two judges who know nothing of each other. The digest: at each flush of a Stop the plugin sums up
the lines that it should have written, and at the end the same lines as media has them. And the
workload: the machine is resumed, and every promise is looked up as always.
"""

from __future__ import annotations

from lab.demo import story, verdict
from lab.demo.outcome import Outcome
from lab.demo.story import Before, Plan
from lab.demo.workload import Workload
from lab.errors import RemError
from lab.machine import CutRecord, Machine
from lab.machine.caches import is_lost

# A kernel that lost its data crashes at once or never answers.
ANSWER_LIMIT_S = 60.0


def judge(
    machine: Machine,
    work: Workload,
    before: Before,
    record: CutRecord,
    plan: Plan,
    outcome: Outcome,
) -> None:
    """The demonstration is right when both judges are red; then it is also ok."""
    told = record.caches or {}
    lost = told.get("lost_lines", 0)
    digest_red = is_lost(record.caches)
    outcome.result.add("lost_lines", lost, "lines", "counted")
    outcome.check(
        "the digest tells that lines are lost",
        digest_red,
        f"{lost} lines; due {told.get('digest_due', 0):016x}, "
        f"on media {told.get('digest_media', 0):016x}",
    )
    red = _workload_is_red(machine, work, before, plan, outcome)
    if plan.no_flush == "all":
        outcome.check("the loader refuses what is there", bool(red), red)
    else:
        outcome.check("the workload's checks tell it", bool(red), red)
    outcome.result.add("detected", int(digest_red and bool(red)), "proofs", "counted")


def _workload_is_red(
    machine: Machine, work: Workload, before: Before, plan: Plan, outcome: Outcome
) -> str:
    """What was found broken after power returned; nothing if all seems well."""
    inner = Outcome(outcome.tell)
    try:
        if story.go(machine, plan, inner):
            machine.wait_resumed(ANSWER_LIMIT_S)
            verdict.check_all(machine, work, before, plan, inner)
        else:
            verdict.all_lost(before, inner)
    except RemError as error:
        inner.check("the machine goes on", False, error.message)
    broken = [check for check in inner.checks if not check.ok]
    return f"{broken[0].name}: {broken[0].detail}" if broken else ""

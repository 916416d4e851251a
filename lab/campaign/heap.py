# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every cut of a guest in which a persistent heap is worked with: `rem campaign --heap`.

The machine of `rem campaign --pm`: volatile caches, a region of NVRAM, no Stop. Two segments of it
hold a heap and a page that says which transactions have returned. The benchmark's binary, the one
that runs the crash tests, works on the heap (heap/bench/src/work.rs) in one window after the other:
under each policy, then with a planted bug. The same binary makes of each window what a cut may
leave (heap/bench/src/judge.rs): this module only brings both together.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab import run
from lab.campaign import pm
from lab.errors import InfraError, RemError, UsageError
from lab.machine import Machine
from lab.messages import info
from lab.paths import repo_dir
from lab.result import Result
from lab.setup.heap import HeapMutants, HeapProgram
from lab.setup.patch_series import Patch, read_series
from lab.setup.products import need
from lab.testbed.pm_guest import install, sh

PROGRAM = "/root/nvheap-bench"
PLANTED = "/root/nvheap-bench-mutants"
OPERATIONS = 20
HEAP_BYTES = 1 << 20
POLICIES = ("FoC+RL", "FoC+UL", "FoC+STM")
UNFLUSHED = "FoF+UL"  # counts on caches that survive, which these do not
PROMISE = "campaign-heap"  # in the heads of heap/mutants/*.patch


@cache
def mutants() -> dict[str, Patch]:
    """Planted bugs that transactions of one session show without a cut before them.

    The head of each names the policy under which it is switched on. The other bugs of the series
    are for heap/mutants/tests alone: no-torn-bit wants records of one line, and skip-direct-fence
    is none where a locked instruction follows, which orders write-backs as a fence does.
    """
    series = read_series(repo_dir() / "heap" / "mutants")
    return {patch.name: patch for patch in series.mutants if "Policy" in patch.head}


@dataclass(frozen=True)
class Row:
    """One window: a policy, and a planted bug or none."""

    policy: str
    mutant: str = ""

    @property
    def must_break(self) -> bool:
        return bool(self.mutant) or self.policy == UNFLUSHED

    def is_found(self, verdict: str) -> bool:
        """Whether this verdict shows what is wrong with the row; a bug has verdicts of its own."""
        if not self.mutant:
            return bool(verdict)
        violations = mutants()[self.mutant].violates
        return verdict in {one.verdict for one in violations if one.promise == PROMISE}

    def __str__(self) -> str:
        if self.policy == UNFLUSHED:
            return f"{self.policy} without surviving caches"
        return f"{self.policy} with {self.mutant}" if self.mutant else self.policy


def rows(chosen: str) -> list[Row]:
    """The rows for a value of --mutants: all, none, or names."""
    plain = [Row(policy) for policy in POLICIES]
    if chosen == "none":
        return plain
    known = mutants()
    names = list(known) if chosen == "all" else chosen.split(",")
    for name in names:
        if name not in known:
            raise UsageError(f"--mutants {name}: choose all, none or {', '.join(known)}")
    return [*plain, *(Row(known[name].one("Policy"), name) for name in names), Row(UNFLUSHED)]


@dataclass(frozen=True)
class Asked:
    """What to record, and how much of it to judge."""

    folder: Path
    name: str
    rows: list[Row]
    limit: int = 100  # images of one place; where there are more, the extremes and some by chance


def record(asked: Asked) -> None:
    # Before a machine runs: building takes a while.
    program = need(HeapProgram())
    planted = need(HeapMutants()) if any(row.mutant for row in asked.rows) else None
    with pm.recorded_guest(asked.folder, asked.name) as machine:
        install(machine)
        machine.guest.put(program, PROGRAM)
        if planted is not None:
            machine.guest.put(planted, PLANTED)
        sh(machine, f"insmod /root/pmcore.ko device=/dev/pmem0 format=1 slots={pm.SLOTS}")
        sh(machine, f"pmadmin create heap {HEAP_BYTES >> 10}K && pmadmin create report 4K")
        for row in asked.rows:
            _row(machine, row)
            info(f"campaign: recorded {row}")


def _row(machine: Machine, row: Row) -> None:
    """Record one window."""
    where = f"--folder /dev/pm --policy {row.policy}"
    sh(machine, f"{PROGRAM} begin {where}")
    program = PLANTED if row.mutant else PROGRAM
    words = f"--operations {OPERATIONS}" + (f" --mutant {row.mutant}" if row.mutant else "")
    pm.window(machine, True)
    done = machine.guest.run(f"{program} row {where} {words}", check=False)
    pm.window(machine, False)
    if not done.ok:
        raise RemError(f"{row}: the work in the guest has failed: {done.stderr.strip()}")


def judge(asked: Asked) -> list[dict[str, Any]]:
    """What the binary makes of each window."""
    nvram_bytes = (asked.folder / "base.media").stat().st_size
    argv: list[str | Path] = [need(HeapProgram()), "judge"]
    argv += ["--folder", asked.folder, "--region", str(pm.region_phys(nvram_bytes))]
    argv += ["--bytes", str(pm.REGION_BYTES), "--limit", str(asked.limit)]
    done = run.run(["nice", *argv], what="judging cuts", timeout_s=pm.JUDGE_LIMIT_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def campaign(asked: Asked) -> Result:
    """Record and judge; the recording is kept where something is wrong with it."""
    record(asked)
    found = judge(asked)
    if len(found) != len(asked.rows):
        raise InfraError(f"{asked.folder}: {len(found)} windows of {len(asked.rows)} were judged")
    result = figures(asked.rows, found)
    if result.ok:
        shutil.rmtree(asked.folder)
    return result


def figures(asked: list[Row], verdicts: list[dict[str, Any]]) -> Result:
    """Violations are those without a planted bug; one without its own verdict is missed."""
    result = Result("campaign-heap")
    counts = dict.fromkeys(("operations", "images", "violations", "mutants", "mutants_missed"), 0)
    for row, one in zip(asked, verdicts, strict=True):
        if one["policy"] != row.policy:
            raise InfraError(f"a window of {row.policy} holds a heap under {one['policy']}")
        found = f"{one['verdict']}: {one['broken']}" if one["verdict"] else ""
        if row.must_break:
            missed = not row.is_found(one["verdict"])
            counts["mutants"] += 1
            counts["mutants_missed"] += missed
            what = f"MISSED, found by {found or 'nothing'}" if missed else found
            info(f"campaign: {row}: {what}")
            continue
        info(f"campaign: {row}: {found or 'no violation'}")
        if one["operations"] != OPERATIONS:
            raise InfraError(
                f"{row}: {one['operations']} transactions of {OPERATIONS} are reported"
            )
        counts["operations"] += one["operations"]
        counts["images"] += one["images"]
        counts["violations"] += bool(one["verdict"])
    for name, count in counts.items():
        result.add(name, count, "", "counted")
    result.ok = not counts["violations"] and not counts["mutants_missed"] and counts["images"] > 0
    return result

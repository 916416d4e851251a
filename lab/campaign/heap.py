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
from pathlib import Path
from typing import Any

from lab import run
from lab.campaign import pm
from lab.errors import InfraError, RemError, UsageError
from lab.machine import Machine
from lab.messages import info
from lab.result import Result
from lab.setup.heap import ensure_heap_bench
from lab.setup.progress import Progress
from lab.testbed.pm_guest import install, sh

PROGRAM = "/root/nvheap-bench"
OPERATIONS = 20
HEAP_BYTES = 1 << 20
POLICIES = ("FoC+RL", "FoC+UL", "FoC+STM")
UNFLUSHED = "FoF+UL"  # counts on caches that survive, which these do not
# Planted bugs (heap/src/mutant.rs) that transactions of one session show without a cut before
# them, and the policy under which they are switched on. Two are for heap/tests/crash.rs alone:
# NoTornBit wants records of one line, and SkipDirectFence is none where a locked instruction
# follows, which orders write-backs as a fence does.
MUTANTS = {
    "SkipCommitFence": "FoC+RL",
    "ApplyBeforeFence": "FoC+RL",
    "SkipUndoFence": "FoC+UL",
    "CommitInFirstLine": "FoC+RL",
    "SkipCheckpointFlush": "FoC+RL",
    "SkipCheckpointFence": "FoC+RL",
    "AbortWithoutRecord": "FoC+UL",
    "AllocNotLogged": "FoC+RL",
    "FreeNotLogged": "FoC+RL",
    "UnlockBeforeFence": "FoC+STM",
}


@dataclass(frozen=True)
class Row:
    """One window: a policy, and a planted bug or none."""

    policy: str
    mutant: str = ""

    @property
    def must_break(self) -> bool:
        return bool(self.mutant) or self.policy == UNFLUSHED

    def __str__(self) -> str:
        if self.policy == UNFLUSHED:
            return f"{self.policy} without surviving caches"
        return f"{self.policy} with {self.mutant}" if self.mutant else self.policy


def rows(mutants: str) -> list[Row]:
    """What --mutants says: all, none, or names."""
    plain = [Row(policy) for policy in POLICIES]
    if mutants == "none":
        return plain
    names = list(MUTANTS) if mutants == "all" else mutants.split(",")
    for name in names:
        if name not in MUTANTS:
            raise UsageError(f"--mutants {name}: choose all, none or {', '.join(MUTANTS)}")
    return [*plain, *(Row(MUTANTS[name], name) for name in names), Row(UNFLUSHED)]


@dataclass(frozen=True)
class Asked:
    """What to record, and how much of it to judge."""

    folder: Path
    name: str
    rows: list[Row]
    limit: int = 100  # images of one place; where there are more, the extremes and some by chance


def record(asked: Asked) -> None:
    program = ensure_heap_bench(Progress()).bench  # before a machine runs: it may take a while
    with pm.recorded_guest(asked.folder, asked.name) as machine:
        install(machine)
        machine.guest.put(program, PROGRAM)
        sh(machine, f"insmod /root/pmcore.ko device=/dev/pmem0 format=1 slots={pm.SLOTS}")
        sh(machine, f"pmadmin create heap {HEAP_BYTES >> 10}K && pmadmin create said 4K")
        for row in asked.rows:
            _row(machine, row)
            info(f"campaign: recorded {row}")


def _row(machine: Machine, row: Row) -> None:
    """One window. A planted bug may show in the program itself, too; that is no verdict."""
    where = f"--folder /dev/pm --policy {row.policy}"
    sh(machine, f"{PROGRAM} begin {where}")
    words = f"--operations {OPERATIONS}" + (f" --mutant {row.mutant}" if row.mutant else "")
    pm.window(machine, True)
    done = machine.guest.run(f"{PROGRAM} row {where} {words}", check=False)
    pm.window(machine, False)
    if not done.ok:
        raise RemError(f"{row}: the work in the guest has failed: {done.stderr.strip()}")


def judge(asked: Asked) -> list[dict[str, Any]]:
    """What the binary makes of each window."""
    nvram_bytes = (asked.folder / "base.media").stat().st_size
    argv: list[str | Path] = [ensure_heap_bench(Progress()).bench, "judge"]
    argv += ["--folder", asked.folder, "--region", str(pm.region_phys(nvram_bytes))]
    argv += ["--bytes", str(pm.REGION_BYTES), "--limit", str(asked.limit)]
    done = run.run(["nice", *argv], what="judging cuts", timeout_s=pm.JUDGE_LIMIT_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def campaign(asked: Asked) -> Result:
    """Record and judge; the recording is kept where something is wrong with it."""
    record(asked)
    told = judge(asked)
    if len(told) != len(asked.rows):
        raise InfraError(f"{asked.folder}: {len(told)} windows of {len(asked.rows)} were judged")
    result = figures(asked.rows, told)
    if result.ok:
        shutil.rmtree(asked.folder)
    return result


def figures(asked: list[Row], told: list[dict[str, Any]]) -> Result:
    """Violations are those without a planted bug; one that nothing shows is missed."""
    result = Result("campaign-heap")
    counts = dict.fromkeys(("operations", "images", "violations", "mutants", "mutants_missed"), 0)
    for row, one in zip(asked, told, strict=True):
        if one["policy"] != row.policy:
            raise InfraError(f"a window of {row.policy} holds a heap under {one['policy']}")
        info(
            f"campaign: {row}: {one['broken'] or ('MISSED' if row.must_break else 'no violation')}"
        )
        if row.must_break:
            counts["mutants"] += 1
            counts["mutants_missed"] += not one["broken"]
            continue
        if one["operations"] != OPERATIONS:
            raise InfraError(f"{row}: {one['operations']} transactions of {OPERATIONS} are told")
        counts["operations"] += one["operations"]
        counts["images"] += one["images"]
        counts["violations"] += bool(one["broken"])
    for name, count in counts.items():
        result.add(name, count, "", "counted")
    result.ok = not counts["violations"] and not counts["mutants_missed"] and counts["images"] > 0
    return result

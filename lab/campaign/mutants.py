# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs, each of which the campaign must find.

Those of the model (machine/campaign/src/synth.rs) cost milliseconds and run always. CI runs five of
the others, in rotation by commit, a soak all.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.campaign import engine as program
from lab.campaign.engine import Work
from lab.campaign.record import Recorded, record
from lab.say import say

CUTS = 1_000
# Bugs of the kernel (stop/) and of the loader (go/) that images show. Others, of contexts, devices
# and disks, are found by tests that boot (tests/test_negative_proofs.py).
KERNEL = (
    "skip-flush",
    "skip-other-flush",
    "commit-early",
    "word-not-flushed",
    "arm-keeps-commit",
)
LOADER = ("skip-consume", "consume-not-flushed", "write-image")


@dataclass(frozen=True)
class Found:
    """What the campaign made of one bug."""

    name: str
    broken: str  # empty: missed

    @property
    def missed(self) -> bool:
        return not self.broken


def rotation(names: list[str], commit: str, count: int) -> list[str]:
    """*count* of the names, others for other commits; every name has its turn."""
    first = int(hashlib.sha256(commit.encode()).hexdigest(), 16) % max(1, len(names))
    turned = names[first:] + names[:first]
    return turned[:count]


def look(engine: Path, recordings: list[Path], seed: int) -> str:
    """The first violation in some recordings, in words; empty if there is none."""
    for recording in recordings:
        work = Work(str(engine), str(recording), seed, 0, CUTS, 0, 1)
        for outcome in program.judge(work).outcomes:
            broken = program.broken_text(outcome["verdict"])
            if broken:
                return broken
    return ""


def machine_mutants() -> list[str]:
    return [*KERNEL, *LOADER]


def run_machine(engine: Path, folder: Path, names: list[str], seed: int) -> list[Found]:
    """Record a machine with each bug, and judge that."""
    found = []
    for name in names:
        asked = Recorded(
            folder / f"mutant-{name}",
            f"campaign-{name}",
            mutant=name if name in KERNEL else None,
            loader_mutant=name if name in LOADER else None,
        )
        try:
            result = Found(name, look(engine, [record(asked)], seed))
        finally:
            shutil.rmtree(asked.directory, ignore_errors=True)
        say(f"campaign: mutant {name}: {result.broken or 'MISSED'}")
        found.append(result)
    return found


def run_model(engine: Path, seed: int, names: list[str] | None = None) -> list[Found]:
    """The model's bugs, and before them the model without one, which must be clean."""
    found = []
    with tempfile.TemporaryDirectory(prefix="rem-mutants-") as folder:
        healthy = program.synth(engine, Path(folder) / "healthy", seed)
        wrong = look(engine, healthy, seed)
        if wrong:
            return [Found("none", "")] + [Found(name, "") for name in names or []]
        for name in names or program.model_mutants(engine):
            recordings = program.synth(engine, Path(folder) / name, seed, name)
            result = Found(name, look(engine, recordings, seed))
            say(f"campaign: mutant {name}: {result.broken or 'MISSED'}")
            found.append(result)
    return found

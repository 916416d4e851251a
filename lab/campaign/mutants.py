# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs, each of which the campaign must find.

Those of the model (machine/model/src/mutants.rs) cost milliseconds and run always. CI runs five of
the others, in rotation by commit, a soak all. Where images show a bug, a power cycle of a machine
that has it is recorded and judged. A bug of contexts, interrupts or devices is in no image: then
the image that its Stop left is booted, and the guest and the workload's check must show it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.campaign import engine as program
from lab.campaign import workload
from lab.campaign.engine import Work
from lab.campaign.record import (
    SAID_LINES,
    Recorded,
    consoles,
    first_stop,
    fresh,
    machine_config,
    record,
    stop,
)
from lab.campaign.workload import Workload, example
from lab.errors import RemError
from lab.machine import Machine
from lab.messages import info

CUTS = 1_000
# Bugs of the kernel (kernel/) that images show.
KERNEL = (
    "skip-flush",
    "skip-other-flush",
    "store-after-flush",
    "commit-early",
    "word-not-flushed",
    "arm-keeps-commit",
)
# Those with which no image would be entered: planted before the Stop that is recorded, not at boot.
KERNEL_LATE = ("skip-commit", "told-early", "skip-fence", "crc-narrow", "old-sequence")
# Bugs of the loader (go/) that images show.
LOADER = ("skip-consume", "consume-not-flushed", "consume-older", "write-image")
# Bugs that a boot shows.
BOOTED = ("skip-context", "skip-msr", "skip-device", "forget-write-through")
# A machine that does not come back costs as much; far more than a healthy one takes.
HANG_LIMIT_S = 40.0
# Stops before the last boot: a cache that Go leaves on loses something at the next cut.
STOPS = {"forget-write-through": 3}
FILES = example("files.py")
# Without flushes of its own: what the disk may lose is then never empty for long.
NO_FLUSH = example("sqlite.py", "off")
DIRECT = example("direct.py")
LOADS = {"forget-write-through": NO_FLUSH}


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


def violations(engine: Path, recordings: list[Path], seed: int) -> set[str]:
    """The names of all violations in some recordings."""
    found = set()
    for recording in recordings:
        work = Work(str(engine), str(recording), seed, 0, CUTS, 0, 1)
        verdicts = (outcome["verdict"] for outcome in program.judge(work).outcomes)
        found |= {program.broken_name(verdict) for verdict in verdicts}
    return found - {""}


def machine_mutants() -> list[str]:
    """Kinds in turn, so that five that follow each other are not of one kind."""
    kinds = [list(kind) for kind in (KERNEL, LOADER, KERNEL_LATE, BOOTED)]
    names = []
    while any(kinds):
        names += [kind.pop(0) for kind in kinds if kind]
    return names


def asked(folder: Path, name: str) -> Recorded:
    """The machine that has this bug."""
    return Recorded(
        folder / f"mutant-{name}",
        f"campaign-{name}",
        mutant=None if name in LOADER else name,
        late_mutant=name in KERNEL_LATE,
        loader_mutant=name if name in LOADER else None,
    )


def run_machine(engine: Path, folder: Path, names: list[str], seed: int) -> list[Found]:
    """A machine with each bug: recorded and judged, or booted."""
    found = []
    for name in names:
        machine = asked(folder, name)
        try:
            if name in BOOTED:
                load = LOADS.get(name, FILES)
                result = Found(name, boot_look(machine, load, STOPS.get(name, 1)))
            else:
                result = Found(name, look(engine, [record(machine)], seed))
        finally:
            shutil.rmtree(machine.directory, ignore_errors=True)
        info(f"campaign: mutant {name}: {result.broken or 'MISSED'}")
        found.append(result)
    return found


def boot_look(
    machine: Recorded, load: Workload, stops: int = 1, limit_s: float = HANG_LIMIT_S
) -> str:
    """What a boot of the image of the last Stop shows; empty if nothing, as without the bug."""
    with fresh(machine_config(machine)) as it:
        first_stop(it, load)
        try:
            for _ in range(stops - 1):
                _goes_on(it, limit_s)
                it.guest.close()
                stop(it)
            before = consoles(it).decode(errors="replace")
            _goes_on(it, limit_s)
            return workload.check(it, load, before, resumed=True, limit_s=limit_s)
        except RemError as error:
            return error.message
        finally:
            it.guest.close()


def _goes_on(machine: Machine, limit_s: float) -> None:
    """Resume; an error where the guest does not come back and its workload says nothing new."""
    machine.boot()
    machine.wait_resumed(limit_s)
    workload.wait_printed(machine, SAID_LINES, limit_s)


def run_model(engine: Path, seed: int, names: list[str] | None = None) -> list[Found]:
    """The model's bugs, and before them the model without one, which must be clean."""
    found = []
    with tempfile.TemporaryDirectory(prefix="rem-mutants-") as folder:
        healthy = program.synth(engine, Path(folder) / "healthy", seed)
        wrong = look(engine, healthy, seed)
        if wrong:
            return [Found("none", "")] + [Found(name, "") for name in names or []]
        mutants = program.model_mutants(engine)
        for name in names or mutants:
            recordings = program.synth(engine, Path(folder) / name, seed, name)
            broken = violations(engine, recordings, seed)
            own = ", ".join(sorted(broken & mutants[name]))
            other = ", ".join(sorted(broken)) or "nothing"
            info(f"campaign: mutant {name}: {own or f'MISSED, found by {other}'}")
            found.append(Found(name, own))
    return found

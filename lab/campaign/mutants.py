# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs, each of which the campaign must find by the verdict that its patch names.

The model's bugs (machine/model/src/mutants.rs) cost milliseconds and always run. Those of kernel
and loader are patches (kernel/mutants, loader/mutants); their heads say how they are shown:

    Shown-by: images    a power cycle of a machine with the bug is recorded and judged
    Shown-by: boot      no image shows it: the image of its Stop is booted, and the guest or the
                        workload's check must fail
    Planted: late       with this bug no image would ever be entered: it is switched on just before
                        the Stop that is recorded, not at boot
    Caches: PROFILE     it is a bug on a machine with these caches only

Bugs with another value are for tests only. CI runs five of these bugs, in rotation by commit; a
soak runs all. Before, the builds with planted bugs must pass the same checks within the same limits
while no bug is on: the control.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lab.campaign import engine as program
from lab.campaign import workload
from lab.campaign.engine import Work
from lab.campaign.record import (
    BOOT_LIMIT_S,
    PROFILE,
    PROMISED_LINES,
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
from lab.isa import IsaName
from lab.machine import Machine
from lab.messages import info
from lab.paths import repo_dir
from lab.progress import step
from lab.setup.kernel import kernel_mutants
from lab.setup.loader import loader_mutants
from lab.setup.patch_series import Patch
from lab.testbed.machines import FirmwareName
from lab.verdict import Broken, BrokenError, after_go, broken_of

CUTS = 1_000
IMAGES, BOOT = "images", "boot"  # values of Shown-by
OF_X86 = ("kernel/x86", "CONFIG_X86_64", "loader/x86", "loader/entry")  # in a patch
NONE = "none"  # no bug has this name: all of a build are off
LATE = "late"  # of Planted
# With a bug and without: a machine that does not come back costs this much.
HANG_LIMIT_S = 60.0
# Stops before the last boot: a cache that Go leaves on loses data at the next cut.
STOPS = {"forget-write-through": 3}
FILES = example("files.py")
# Without flushes of its own, so that the disk's cache is never empty for long.
NO_FLUSH = example("sqlite.py", "off")
DIRECT = example("direct.py")
LOADS = {"forget-write-through": NO_FLUSH}


@dataclass(frozen=True)
class Board:
    """What the machines have on which bugs are planted."""

    profile: str = PROFILE  # of their caches
    isa: IsaName = "x86_64"
    firmware: FirmwareName = "direct"


USUAL = Board()


@dataclass(frozen=True)
class Found:
    """What the campaign reports of one bug.

    *expected*: the verdicts by which the bug counts as found; empty: any verdict does.
    """

    name: str
    expected: frozenset[str]
    broken: tuple[Broken, ...]

    @property
    def by_expected(self) -> Broken | None:
        for broken in self.broken:
            if not self.expected or broken.verdict in self.expected:
                return broken
        return None

    @property
    def found_by_other(self) -> bool:
        """Some check fails, but with none of the expected verdicts."""
        return bool(self.broken) and self.by_expected is None

    @property
    def missed(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        if self.missed:
            return "MISSED"
        if (found := self.by_expected) is not None:
            return f"{found.verdict}: {found}"
        others = ", ".join(sorted({broken.verdict for broken in self.broken}))
        return f"FOUND BY OTHER: want {' or '.join(sorted(self.expected))}, got {others}"


def violations(engine: Path, recordings: Iterable[Path], seed: int) -> tuple[Broken, ...]:
    """The first violation of each verdict in some recordings."""
    found: dict[str, Broken] = {}
    for recording in recordings:
        work = Work(str(engine), str(recording), seed, 0, CUTS, 0, 1)
        for outcome in program.judge(work).outcomes:
            text = program.broken_text(outcome["verdict"])
            verdict = text.partition(" ")[0]
            if text and verdict not in found:
                found[verdict] = Broken(verdict, text)
    return tuple(found.values())


@cache
def patches() -> dict[str, Patch]:
    """The bugs of kernel and loader that a campaign looks for, by name."""
    repo = repo_dir()
    every = (*kernel_mutants(repo).mutants, *loader_mutants(repo).mutants)
    return {patch.name: patch for patch in every if patch.one("Shown-by") in {IMAGES, BOOT}}


def in_loader(patch: Patch) -> bool:
    return patch.path.is_relative_to(repo_dir() / "loader")


def is_late(patch: Patch) -> bool:
    return patch.one("Planted", "at-boot") == LATE


def kind_of(patch: Patch) -> tuple[str, bool, bool]:
    """Bugs of one kind are found in the same way."""
    return patch.one("Shown-by"), in_loader(patch), is_late(patch)


def is_of(patch: Patch, isa: IsaName) -> bool:
    """Whether machines of an instruction set have the code that is wrong."""
    if isa == "x86_64":
        return True
    text = patch.path.read_text(encoding="utf-8")
    return not any(name in text for name in OF_X86)


def machine_mutants(isa: IsaName = "x86_64") -> list[str]:
    """Kinds in turn, so that five names in a row are of several kinds."""
    kinds: dict[tuple[str, bool, bool], list[str]] = {}
    for name, patch in patches().items():
        if not is_of(patch, isa):
            continue
        kinds.setdefault(kind_of(patch), []).append(name)
    names: list[str] = []
    while any(kinds.values()):
        names += [kind.pop(0) for kind in kinds.values() if kind]
    return names


def caches_of(name: str, profile: str) -> str:
    """The caches of the machine that has this bug: of *profile*, unless it needs others."""
    return patches()[name].one("Caches", profile)


def recorded(folder: Path, name: str, board: Board = USUAL) -> Recorded:
    """The machine that has this bug."""
    patch = patches()[name]
    return Recorded(
        folder / f"mutant-{name}",
        f"campaign-{name}",
        profile=caches_of(name, board.profile),
        mutant=None if in_loader(patch) else name,
        late_mutant=is_late(patch),
        loader_mutant=name if in_loader(patch) else None,
        isa=board.isa,
        firmware=board.firmware,
    )


def run_machine(
    engine: Path, folder: Path, names: list[str], seed: int, board: Board = USUAL
) -> list[Found]:
    """The controls of these bugs, then a machine with each. If a control fails, all are missed."""
    kinds = {(patches()[name].one("Shown-by"), caches_of(name, board.profile)) for name in names}
    for shown_by, caches in sorted(kinds):
        if broken := control(engine, folder, shown_by, seed, replace(board, profile=caches)):
            info(f"campaign: the control of bugs shown by {shown_by} on {caches}: {broken[0]}")
            return [Found(name, frozenset(), ()) for name in names]
    return [look_for(engine, folder, name, seed, board) for name in names]


def control(
    engine: Path, folder: Path, shown_by: str, seed: int, board: Board = USUAL
) -> tuple[Broken, ...]:
    """What the checks of bugs of this kind find on their builds while no bug is on."""
    machine = Recorded(
        folder / f"mutant-{NONE}-{shown_by}",
        f"campaign-{NONE}-{shown_by}",
        profile=board.profile,
        mutant=NONE,
        loader_mutant=NONE,
        isa=board.isa,
        firmware=board.firmware,
    )
    return _checked(engine, machine, shown_by, FILES, 1, seed)


def look_for(engine: Path, folder: Path, name: str, seed: int, board: Board = USUAL) -> Found:
    """A machine with a bug: recorded and judged, or booted."""
    patch, machine = patches()[name], recorded(folder, name, board)
    load, stops = LOADS.get(name, FILES), STOPS.get(name, 1)
    broken = _checked(engine, machine, patch.one("Shown-by"), load, stops, seed)
    result = Found(name, patch.verdicts, broken)
    info(f"campaign: mutant {name}: {result}")
    return result


def _checked(
    engine: Path, machine: Recorded, shown_by: str, load: Workload, stops: int, seed: int
) -> tuple[Broken, ...]:
    try:
        if shown_by == BOOT:
            broken = boot_once(machine, load, stops)
            return (broken,) if broken else ()
        return violations(engine, [record(machine)], seed)
    except BrokenError as error:  # of the run itself, before any image of it was judged
        return (broken_of(error),)
    finally:
        shutil.rmtree(machine.directory, ignore_errors=True)


def boot_once(machine: Recorded, load: Workload, stops: int = 1) -> Broken | None:
    """Boot the image of the last Stop; what is broken then, or None, as without a bug."""
    with fresh(machine_config(machine)) as it:
        first_stop(it, load)
        try:
            for _ in range(stops - 1):
                _resume(it)
                it.guest.close()
                stop(it)
            before = consoles(it).decode(errors="replace")
            _resume(it)
            return workload.check(it, load, before, resumed=True, limit_s=HANG_LIMIT_S)
        except RemError as error:
            return broken_of(error)
        finally:
            it.guest.close()


def _resume(machine: Machine) -> None:
    """Resume; raise RemError if the guest does not come back or its workload prints nothing."""
    machine.boot()
    machine.wait_boot_note(BOOT_LIMIT_S)  # what firmware takes is no hang
    machine.wait_resumed(HANG_LIMIT_S)
    with after_go():
        workload.wait_printed(machine, PROMISED_LINES, HANG_LIMIT_S)


def run_model(engine: Path, seed: int, names: list[str] | None = None) -> list[Found]:
    """The model's bugs, after the model without one, in which no rule may be broken, on a machine
    with and on one without a persistence domain."""
    found = []
    known = program.model_mutants(engine)
    with tempfile.TemporaryDirectory(prefix="rem-mutants-") as folder:
        healthy = program.synth(engine, Path(folder) / "healthy", seed)
        healthy += program.synth(engine, Path(folder) / "uncovered", seed, uncovered=True)
        if wrong := violations(engine, healthy, seed):
            info(f"campaign: the model without a bug: {wrong[0]}")
            return [Found(name, frozenset(), ()) for name in ("none", *(names or known))]
        wanted = names or list(known)
        with step("campaign: planted bugs of the model", len(wanted), "bugs") as shown:
            for name in wanted:
                recordings = program.synth(engine, Path(folder) / name, seed, name)
                result = Found(name, known[name], violations(engine, recordings, seed))
                info(f"campaign: mutant {name}: {result}")
                found.append(result)
                shown.advance()
    return found

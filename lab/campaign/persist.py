# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --persist memory`: cuts of a machine whose fsync ends in memory.

A run is recorded and cut as any other; images that do not resume boot cold, rem-replay writes what
the registry has kept, and each fsync that had ended by then must be found.

Planted bugs of kernel and loader are found by the checks that they name (testbed/fsync_checks.py),
on a machine that keeps its CPU caches. Some leave something in these caches. With those of them
that break what the recorded workload does a run with volatile caches is recorded, and its images
boot; the others are found by their checks on a machine whose caches are volatile.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lab.campaign import boots, runner
from lab.campaign.mutants import Found
from lab.campaign.record import Recorded, record
from lab.campaign.store import Store
from lab.campaign.workload import BROKEN, Workload, example
from lab.errors import RemError
from lab.machine import Machine
from lab.messages import info
from lab.paths import repo_dir
from lab.setup.kernel import kernel_mutants
from lab.setup.loader import loader_mutants
from lab.setup.products import Kernel, Loader, need
from lab.setup.replay import RemReplay
from lab.testbed.fsync_checks import (
    CACHE_BUGS,
    KERNEL_BUGS,
    LOADER_BUGS,
    Check,
    check_on_media,
    check_with_bug,
    synced_pages_are_found,
)
from lab.testbed.fsync_guest import caches_guest, fsync_guest
from lab.verdict import Broken, BrokenError, broken_of

# The workload syncs pages, and no more.
IN_IMAGES = tuple(name for name, check in CACHE_BUGS.items() if check is synced_pages_are_found)
NAMES = (*KERNEL_BUGS, *LOADER_BUGS, *CACHE_BUGS)
# Of flushes that end in memory; the others are for tests/fsync/test_fsync_redo_planted.py.
FLUSH_BUGS = ("redo-data-in-cache", "redo-head-early")
IMAGES, BOOTS = 200, 12  # of a run with a bug
NEW_FILES = repo_dir() / "lab" / "testbed" / "new_files.py"


def load(*, flushes: bool = False) -> Workload:
    """What runs: each of its lines is an fsync that has ended, with *flushes* a first one."""
    replay = str(need(RemReplay()))
    if flushes:
        return replace(example("flushed.py"), tools=(replay, str(NEW_FILES)))
    return replace(example("synced.py"), tools=(replay,))


def lost(booted: Iterable[boots.Booted]) -> int:
    """Images in which an fsync that had ended is not found."""
    return sum(BROKEN in line for item in booted for line in item.disagreements)


def run_mutants(
    engine: Path, folder: Path, names: list[str], seed: int, *, flushes: bool = False
) -> list[Found]:
    """What is found of each bug. If a control finds something, all are missed."""
    verdicts = {
        patch.name: patch.verdicts
        for series in (kernel_mutants(repo_dir()), loader_mutants(repo_dir()))
        for patch in series.mutants
    }
    in_images = [name for name in names if name in (FLUSH_BUGS if flushes else IN_IMAGES)]
    in_caches = [name for name in names if name in CACHE_BUGS and name not in in_images]
    by_checks = [name for name in names if name not in CACHE_BUGS and name not in in_images]
    found: list[Found] = []
    if by_checks:
        kernel, loader = need(Kernel("mutants")).bz_image, need(Loader(mutants=True))
        name = f"campaign-fsync-{seed}"
        with fsync_guest(name, kernel=kernel, loader=loader) as machine:
            checks = dict.fromkeys((*KERNEL_BUGS.values(), synced_pages_are_found))
            found += _by_checks(machine, by_checks, verdicts, checks, check_with_bug)
    if in_caches:
        with caches_guest(f"campaign-caches-{seed}", need(Kernel("mutants")).bz_image) as machine:
            checks = dict.fromkeys(CACHE_BUGS[name] for name in in_caches)
            found += _by_checks(machine, in_caches, verdicts, checks, check_on_media)
    if in_images:
        found += _by_images(_Images(engine, folder, seed, flushes), in_images, verdicts)
    for one in found:
        info(f"campaign: mutant {one.name}: {one}")
    return found


def _by_checks(
    machine: Machine,
    names: list[str],
    verdicts: dict[str, frozenset[str]],
    controls: Iterable[Check],
    with_bug: Callable[[Machine, str], None],
) -> list[Found]:
    try:
        for check in controls:
            check(machine, f"/root/control-{check.__name__}")
    except RemError as error:
        info(f"campaign: without a planted bug: {error.message}")
        return [Found(name, frozenset(), ()) for name in names]
    found = []
    for name in names:
        try:
            with_bug(machine, name)
            broken: tuple[Broken, ...] = ()
        except RemError as error:
            broken = (broken_of(error),)
        found.append(Found(name, verdicts[name], broken))
    return found


@dataclass(frozen=True)
class _Images:
    """Of what kind of run, and where it is kept for a while."""

    engine: Path
    folder: Path
    seed: int
    flushes: bool


def _by_images(
    images: _Images, names: list[str], verdicts: dict[str, frozenset[str]]
) -> list[Found]:
    if broken := _recorded(images, "none"):
        info(f"campaign: without a planted bug: {broken[0]}")
        return [Found(name, frozenset(), ()) for name in names]
    return [Found(name, verdicts[name], _recorded(images, name)) for name in names]


def _recorded(images: _Images, name: str) -> tuple[Broken, ...]:
    """Record a run with that bug; what is wrong with machines that boot cuts of it."""
    directory, engine, seed = images.folder / f"mutant-{name}", images.engine, images.seed
    try:
        run = Recorded(
            directory,
            f"campaign-{name}",
            load=load(flushes=images.flushes),
            persist=True,
            flushes=images.flushes,
            mutant=name,
        )
        recording = record(run)
        with tempfile.TemporaryDirectory(prefix="rem-mutants-") as scratch:
            store = Store(Path(scratch) / "results.sqlite")
            try:
                cuts = runner.Plan(engine=engine, recordings=(recording,), images=IMAGES, seed=seed)
                runner.run(cuts, store)
                plan = boots.BootPlan(BOOTS, BOOTS)
                booted = boots.boot_all(engine, store, recording, f"campaign-{name}", plan)
            finally:
                store.close()
        return tuple(
            Broken("promises-broken", line) for line in booted.disagreements if BROKEN in line
        )
    except BrokenError as error:  # of the run itself
        return (broken_of(error),)
    finally:
        shutil.rmtree(directory, ignore_errors=True)

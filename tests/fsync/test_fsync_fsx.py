# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: fsync that ends in memory changes nothing of what a file system promises: not while it
runs, not over Stop and Go, not after a crash.

Method: rem-fsx (guest/programs/rem-fsx.c) on ext4, XFS and btrfs, which always waits for its disk.
It compares each read with a model. After a crash each byte must be as after an operation from its
last sync on that was acknowledged, and not as after one that was never begun; and the file system's
own program must find nothing. Negative proofs: planted bugs of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.machine import Machine
from lab.testbed import fsync_guest
from lab.testbed.cycle import cut_and_resume
from lab.testbed.fsx import (
    BTRFS,
    BY_DISK,
    EXT4,
    FILE_SYSTEMS,
    FOLDER,
    NOT_AT_ONCE,
    XFS,
    FileSystem,
    check_structure,
    fsx_config,
    make,
    mount,
    running,
)
from lab.testbed.fsync_checks import replay
from lab.testbed.fsync_guest import CRASHES, counts, install, machine_of, state, wait_up
from lab.testbed.planted import plant
from lab.testbed.pm_guest import kernel_complaints, sh
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

ALL_IDS = ("ext4", "xfs", "btrfs")
IDS = ("ext4", "xfs")
FILES = 2
OPERATIONS = 1200
CUTS = 3
# Planted bugs that a file's content shows.
BUGS = ("fsync-old-size", "fsync-stays-writable", "fsync-change-unsaid")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with machine_of(fsx_config(machine_name("fsync-fsx"))) as made:
        made.boot()
        wait_up(made)
        install(made)
        yield made


@pytest.fixture
def mounted(machine: Machine, kind: FileSystem) -> Machine:
    """With an empty file system, whichever way the test before it has ended."""
    if state(machine) != "memory":
        fsync_guest.replay(machine, "--discard", check=False)
    sh(machine, f"umount {FOLDER} 2>/dev/null; true")
    plant(machine, "none")
    make(machine, kind)
    assert state(machine) == "memory"
    return machine


def crash(machine: Machine, kind: FileSystem, way: Callable[[Machine], None]) -> None:
    way(machine)
    mount(machine, kind)
    replay(machine)


@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=ALL_IDS)
def test_files_are_right_over_stop_and_go(mounted: Machine, kind: FileSystem) -> None:
    before = counts(mounted)["in_memory"]
    with ExitStack() as stack:
        files = [stack.enter_context(running(mounted, kind, seed + 1)) for seed in range(FILES)]
        for _ in range(CUTS):
            for one in files:
                one.wait_operations(OPERATIONS // CUTS)
            cut_and_resume(mounted)
        for one in files:
            one.wait_operations(OPERATIONS // CUTS)
    ended = counts(mounted)["in_memory"] - before
    assert (ended > 0) == (kind is not BTRFS)
    assert not kernel_complaints(mounted)
    check_structure(mounted, kind)


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (EXT4, "panic"),
        (XFS, "power"),
        (EXT4, "power"),
        (EXT4, "refused"),
        (EXT4, "failed-stop"),
        (XFS, "watchdog"),
        (XFS, "panic"),
        (XFS, "refused"),
    ],
)
def test_files_are_right_after_a_crash(mounted: Machine, kind: FileSystem, way: str) -> None:
    """At any instruction: some operations are under way, and an unknown number was not heard."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(running(mounted, kind, seed + 11, lacks=NOT_AT_ONCE))
            for seed in range(FILES)
        ]
        for one in files:
            one.wait_operations(OPERATIONS)
        crash(mounted, kind, CRASHES[way])
    for one in files:
        one.check()
    assert not kernel_complaints(mounted)
    check_structure(mounted, kind)


def crash_after(
    machine: Machine, kind: FileSystem, seed: int, count: int, lacks: tuple[str, ...] = ()
) -> None:
    """Nothing is under way then, and all that was done is known."""
    with running(machine, kind, seed, count=count, lacks=lacks) as one:
        one.wait_done()
        crash(machine, kind, fsync_guest.lose_power)
    one.check()


@pytest.mark.parametrize("lacks", ((), BY_DISK), ids=("all", "in-memory"))
@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=ALL_IDS)
def test_nothing_is_there_that_was_not_written(
    mounted: Machine, kind: FileSystem, lacks: tuple[str, ...]
) -> None:
    crash_after(mounted, kind, 31, 600, lacks)
    check_structure(mounted, kind)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", (EXT4, XFS), ids=IDS)
def test_files_are_right_after_many_crashes(mounted: Machine, kind: FileSystem) -> None:
    for seed in range(100, 120):
        crash_after(mounted, kind, seed, 100 + 37 * (seed - 100), BY_DISK if seed % 2 else ())
        check_structure(mounted, kind)
        make(mounted, kind)


@pytest.mark.parametrize("kind", (EXT4,), ids=("ext4",))
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(mounted: Machine, kind: FileSystem, name: str) -> None:
    plant(mounted, name)
    with must_be_found(name):
        for seed in range(200, 206):
            plant(mounted, name)
            crash_after(mounted, kind, seed, 300, BY_DISK)

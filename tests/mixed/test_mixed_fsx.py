# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: DRAM as a cache of NVRAM changes nothing of what a file system promises: not while it
runs, not over Stop and Go, not after a crash.

Method: rem-fsx, as in tests/fsync/test_fsync_fsx.py; its model of the file is what DRAM caches.
Stop copies DRAM home in shares, and another program has the first ones, so that rem-fsx has others.
Negative proof: a kernel that copies only the first share home.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.machine import Machine
from lab.testbed import fsync_guest
from lab.testbed.fsx import (
    EXT4,
    FILE_SYSTEMS,
    FOLDER,
    NOT_AT_ONCE,
    XFS,
    FileSystem,
    Fsx,
    check_structure,
    fsx_config,
    make,
    mount,
    running,
)
from lab.testbed.mixed_checks import CACHE_BYTES, Cut, cut_and_resume
from lab.testbed.mixed_guest import (
    MOVE_LIMIT_S,
    PAGE_BYTES,
    counts,
    mixed_config,
    state,
    wait_count,
)
from lab.testbed.planted import plant
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.waiting import wait_until
from lab.verdict import after_go
from tests.support.claims import BOOT_LIMIT_S, machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

FILES = 2
OPERATIONS = 900
CUTS = 3
MODEL_PAGES = 64  # of a rem-fsx: BYTES_DEFAULT in guest/programs/rem-fsx.c
SHARE_FRAMES = 1024  # of DRAM; what a CPU copies home at once: kernel/mixed/frames.c
HELD = 2 * SHARE_FRAMES  # pages
# In the guest; all its pages are hot, and dirty.
HOLDER = f"""
import time
pages = bytearray({HELD * PAGE_BYTES})
while True:
    for at in range(0, len(pages), {PAGE_BYTES}):
        pages[at] ^= 1
    time.sleep(0.05)
"""


@contextmanager
def held_machine(purpose: str) -> Iterator[Machine]:
    """Booted; a program has all frames of the first share, so others get those behind it.

    The kernel gives out frames from the first one on, and again those that have become free. So the
    program has to come first: all that two rem-fsx and the guest need may have room in one share.
    """
    config = mixed_config(fsx_config(machine_name(purpose)), CACHE_BYTES)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        made.wait_up(BOOT_LIMIT_S)
        sh(made, f"setsid python3 -c {shlex.quote(HOLDER)} >/dev/null </dev/null 2>&1 &")
        wait_count(made, "used", HELD)
        yield made


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with held_machine("mixed-fsx") as made:
        yield made


@pytest.fixture
def mounted(machine: Machine, kind: FileSystem) -> Machine:
    sh(machine, f"umount {FOLDER} 2>/dev/null; true")
    make(machine, kind)
    assert state(machine) == "on"
    return machine


def go_on(files: list[Fsx]) -> None:
    for one in files:
        one.wait_operations(OPERATIONS // CUTS)


def own_pages(machine: Machine) -> int:
    """Frames of programs' own memory. Those of texts and files, which others share, come and go."""
    now = counts(machine)
    return now["used"] - now["text_used"] - now["file_used"]


def right_over_cuts(machine: Machine, kind: FileSystem) -> list[Cut]:
    """rem-fsx finds nothing, though its models were in DRAM at each of the cuts."""
    cuts = []
    before = own_pages(machine)
    with ExitStack() as stack:
        files = [stack.enter_context(running(machine, kind, seed + 1)) for seed in range(FILES)]
        wait_until(
            lambda: own_pages(machine) >= before + FILES * MODEL_PAGES,
            "models to be in DRAM",
            MOVE_LIMIT_S,
        )
        # These store to the models again, so that their homes are old.
        go_on(files)
        for _ in range(CUTS):
            cuts.append(cut_and_resume(machine))
            with after_go():
                go_on(files)
    return cuts


@pytest.mark.parametrize("kind", FILE_SYSTEMS, ids=("ext4", "xfs", "btrfs"))
def test_files_are_right_over_stop_and_go(mounted: Machine, kind: FileSystem) -> None:
    for cut in right_over_cuts(mounted, kind):
        assert cut.copied > SHARE_FRAMES, "the planted bug below would lose nothing"
        assert cut.filled >= cut.copied
    assert not kernel_complaints(mounted)
    check_structure(mounted, kind)


@pytest.mark.parametrize("kind", (EXT4, XFS), ids=("ext4", "xfs"))
def test_files_are_right_after_a_crash(mounted: Machine, kind: FileSystem) -> None:
    with ExitStack() as stack:
        files = [
            stack.enter_context(running(mounted, kind, seed + 11, lacks=NOT_AT_ONCE))
            for seed in range(FILES)
        ]
        for one in files:
            one.wait_operations(OPERATIONS)
        fsync_guest.panic(mounted)
    mount(mounted, kind)
    for one in files:
        one.check()
    assert not kernel_complaints(mounted)
    check_structure(mounted, kind)


def test_planted_bug_is_found() -> None:
    """On a machine of its own: what ran before decides which frames are free."""
    with held_machine("mixed-fsx-bug") as machine:
        make(machine, EXT4)
        plant(machine, "dram-half-home")
        with must_be_found("dram-half-home"):
            right_over_cuts(machine, EXT4)

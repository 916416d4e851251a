# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a file system on a disk of persistent memory (pmramd) keeps each promise, too, where fsync
ends in memory, beside files on an ordinary disk.

Method: a witness on each, and the power fails without a Stop.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.fsx import EXT4, FOLDER, mount
from lab.testbed.fsync_guest import (
    CRASHES,
    counts,
    install,
    machine_of,
    replay,
    state,
    wait_up,
    witness,
)
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import install as install_pm
from lab.testbed.pm_guest import kernel_complaints, load, sh
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

DISK = "/dev/pmrd0"
STEPS = 120


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with machine_of(make_config(machine_name("fsync-pmramd")), "pm=96M") as made:
        made.boot()
        wait_up(made)
        install(made)
        install_pm(made)
        load(made, "format=1", source="")
        sh(made, f"pmadmin create fs 64M --block 4096 && mkdir -p {FOLDER}")
        sh(made, f"pmadmin ramdisk add fs && {EXT4.make} {DISK} && sync")
        mount(made, EXT4, DISK)
        yield made


@pytest.mark.parametrize("way", ("power", "panic"))
def test_both_disks_keep_their_promises(machine: Machine, way: str) -> None:
    assert state(machine) == "memory"
    before = counts(machine)
    folders = (f"{FOLDER}/{way}", f"/root/{way}")
    with witness(machine, folders[0], seed="pm") as there, witness(machine, folders[1]) as here:
        for one in (there, here):
            one.wait(STEPS)
        assert counts(machine)["in_memory"] > before["in_memory"]
        CRASHES[way](machine)
    load(machine, source="")
    sh(machine, "pmadmin ramdisk add fs")
    mount(machine, EXT4, DISK)
    report = replay(machine)
    assert not report["damaged"] and not report["failed"], report
    assert there.check() == []
    assert here.check() == []
    assert not kernel_complaints(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is in the region is there again after a reboot, a panic and a power cut without Stop.

Goal: a file system with a database on a pmramd disk, and a program's pointers in a mapped segment,
are as they were acknowledged. Method: one machine that loses its kernel in three ways; what a
memory file system held must not be there, so that the checks are known to be able to fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import cut, guest_with_region, kernel_complaints, load, reset, sh

pytestmark = pytest.mark.full

ROWS = 300
DISK = "pmadmin ramdisk add disk && mkdir -p /mnt/pm"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_region(f"t-pm-{os.getpid()}") as made:
        load(made, "format=1")
        sh(made, "pmadmin create disk 64M --block 4096")
        sh(made, "pmadmin create list 8M --map-address 0x100000000000")
        sh(made, f"{DISK} && mkfs.ext4 -q /dev/pmrd0 && mount /dev/pmrd0 /mnt/pm")
        sh(made, f"python3 /root/pm-check.py make /mnt/pm {ROWS}")
        sh(made, f"python3 /root/pm-check.py make /dev/shm {ROWS}")
        sh(made, "python3 /root/pm-check.py tie list")
        yield made


def reboot(machine: Machine) -> None:
    reset(machine, "b")
    assert machine.resets


def panic(machine: Machine) -> None:
    reset(machine, "c")
    assert machine.resets


@pytest.mark.parametrize(
    "lose", [*(pytest.param(way, marks=pytest.mark.in_turn) for way in (reboot, panic)), cut]
)
def test_database_and_pointers_survive(machine: Machine, lose: Callable[[Machine], None]) -> None:
    lose(machine)
    load(machine)
    sh(machine, f"{DISK} && mount /dev/pmrd0 /mnt/pm")
    sh(machine, f"python3 /root/pm-check.py check /mnt/pm {ROWS}")
    sh(machine, "python3 /root/pm-check.py follow list")
    sh(machine, "pmadmin scrub disk && pmadmin check")
    # Could these checks fail at all? They do where nothing survived, and where a row lacks.
    assert not sh(machine, f"python3 /root/pm-check.py check /dev/shm {ROWS}", check=False).ok
    assert not sh(machine, f"python3 /root/pm-check.py check /mnt/pm {ROWS + 1}", check=False).ok
    sh(machine, "umount /mnt/pm && e2fsck -fn /dev/pmrd0")
    sh(machine, "mount /dev/pmrd0 /mnt/pm")
    assert not kernel_complaints(machine)

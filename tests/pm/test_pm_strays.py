# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A store of other kernel code into the region faults, and changes nothing.

Goal: only who opens a window writes. Method: a module that stores where it has no business, by each
of the kernel's mappings of the region; with protection switched off the same store is done, and the
damage is there. Windows are counted: each write opens some.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import guest_with_region, load, sh, status, unload
from tests.pm.conftest import ASIDE

# The first test builds the modules.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200), pytest.mark.usefixtures("quiet")]

FAULTED = "Bad address"
DONE = "Operation canceled"


def stray(machine: Machine, words: str) -> str:
    return sh(machine, f"insmod /root/pmstray.ko {words}", check=False).stderr


def where(machine: Machine, name: str) -> int:
    for segment in json.loads(sh(machine, "pmadmin --json list").stdout):
        if segment["name"] == name:
            offset: int = segment["offset"]
            return offset
    raise AssertionError(f"no segment {name}")


def first_bytes(machine: Machine, name: str) -> str:
    return sh(machine, f"od -An -tx1 -N8 /dev/pm/{name}").stdout.strip()


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    more = f"{ASIDE} pm=32M@0x120000000"
    with guest_with_region(f"t-pms-{os.getpid()}", more=more) as made:
        yield made


@pytest.mark.parametrize("source", ["device=/dev/pmem0", ""])
def test_a_stray_store_faults(machine: Machine, source: str) -> None:
    load(machine, "format=1", source=source)
    sh(machine, "pmadmin create victim 1M && printf untouched >/dev/pm/victim")
    found = status(machine)
    assert found["protected"]
    place = found["phys"] + where(machine, "victim")
    before = first_bytes(machine, "victim")
    assert FAULTED in stray(machine, f"physical=1 address={place:#x}")
    if found["same_address"]:
        place = found["address"] + where(machine, "victim")
        assert FAULTED in stray(machine, f"address={place:#x}")
    # The base segment as well.
    assert FAULTED in stray(machine, f"physical=1 address={found['phys']:#x}")
    assert first_bytes(machine, "victim") == before
    sh(machine, "printf more >/dev/pm/victim && pmadmin check")
    assert status(machine)["windows"] > found["windows"]
    unload(machine)


def test_without_protection_it_is_done(machine: Machine) -> None:
    """The negative proof: the store is one that would have done damage."""
    load(machine, "protect=0")
    found = status(machine)
    assert not found["protected"]
    place = found["phys"] + where(machine, "victim")
    before = first_bytes(machine, "victim")
    assert DONE in stray(machine, f"physical=1 address={place:#x}")
    assert first_bytes(machine, "victim") != before
    unload(machine)


def test_the_disks_driver_stores_no_more_either(machine: Machine) -> None:
    """Root's own `dd` onto the pmem device is refused while it is a region, and works after."""
    load(machine)
    assert not sh(machine, "dd if=/dev/zero of=/dev/pmem0 bs=4096 count=1", check=False).ok
    sh(machine, "pmadmin check")
    unload(machine)
    sh(machine, "dd if=/dev/zero of=/dev/pmem0 bs=4096 seek=1000 count=1 conv=notrunc")


def test_memory_that_the_kernel_maps_with_its_own_is_said_to_be_open(machine: Machine) -> None:
    sh(machine, "insmod /root/pmcore.ko reserved=pm format=1")
    found = status(machine)
    place = found["phys"] + (1 << 20)
    expected = FAULTED if found["protected"] else DONE
    assert expected in stray(machine, f"physical=1 address={place:#x}")
    sh(machine, "rmmod pmcore")

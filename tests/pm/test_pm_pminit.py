# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A region that `pm=` put aside: its place, its address, its size, over every end of a kernel.

Goal: content outlives a reboot, a panic, a kexec and a power cut; the kernel maps it at the same
address each time though everything else is moved about (KASLR); another size takes effect at the
next boot, unless it would cut off a segment. Method: one machine; the region's own status, and what
is in a segment. That other addresses do differ from boot to boot is looked up, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.machine.qemu import NVRAM_PHYS
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import (
    cut,
    install,
    kernel_complaints,
    kexec,
    load,
    reset,
    sh,
    status,
    wait_up,
)

# The first test builds the modules.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

REGION_BYTES = 64 << 20
LARGER_BYTES = 96 << 20


def symbol(machine: Machine) -> str:
    """Where the kernel's own text is."""
    return sh(machine, "grep -w _text /proc/kallsyms").stdout.split()[0]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    config = make_config(f"t-pmi-{os.getpid()}")
    address = NVRAM_PHYS + config.nvram_bytes - (128 << 20)
    words = f"pm={REGION_BYTES >> 20}M@{address:#x}"
    with Machine.create(replace(config, cmdline_extra=words), destroy_on_exit=True) as made:
        made.boot()
        wait_up(made)
        install(made)
        load(made, "format=1", source="")
        sh(made, "pmadmin create kept 4M && printf content >/dev/pm/kept")
        yield made


def reboot(machine: Machine) -> None:
    reset(machine, "b")


def panic(machine: Machine) -> None:
    reset(machine, "c")


def enter_by_kexec(machine: Machine) -> None:
    """Neither a reset nor a loader had a part in it, and yet another boot it is."""
    identity = "cat /proc/sys/kernel/random/boot_id"
    resets, boot = machine.resets, sh(machine, identity).stdout
    kexec(machine)
    assert machine.resets == resets
    assert sh(machine, identity).stdout != boot


def test_the_region_is_where_it_was_asked_to_be(machine: Machine) -> None:
    found = status(machine)
    assert found["source"] == "pm="
    assert found["region_bytes"] == REGION_BYTES
    assert found["dax"] and found["same_address"] and found["protected"]
    assert found["address"] == 0xFFFFFE8000000000
    assert not found["fof"], "no hold-up is known, so no Stop is promised"
    assert "Reserved" in sh(machine, f"grep -i {found['phys']:x} /proc/iomem").stdout


@pytest.mark.parametrize(
    "lose",
    [
        reboot,
        *(pytest.param(way, marks=pytest.mark.in_turn) for way in (panic, enter_by_kexec)),
        cut,
    ],
)
def test_content_and_address_outlive(machine: Machine, lose: Callable[[Machine], None]) -> None:
    before, text = status(machine), symbol(machine)
    for _ in range(3):  # a random place may by chance be the same
        lose(machine)
        load(machine, source="")
        assert sh(machine, "head -c 7 /dev/pm/kept").stdout == "content"
        now = status(machine)
        assert (now["address"], now["phys"]) == (before["address"], before["phys"])
        assert not kernel_complaints(machine)
        if symbol(machine) != text:
            break
    assert symbol(machine) != text, "nothing is moved about: the same address shows nothing"


@pytest.mark.in_turn("size")
def test_larger_size_takes_effect_at_the_next_boot(machine: Machine) -> None:
    assert not sh(machine, "pmadmin resize-region 256M", check=False).ok  # more than there is
    sh(machine, f"pmadmin resize-region {LARGER_BYTES}")
    assert status(machine)["region_bytes"] == REGION_BYTES
    reboot(machine)
    load(machine, source="")
    assert status(machine)["region_bytes"] == LARGER_BYTES
    sh(machine, f"pmadmin create high 20M && pmadmin create higher {20 << 20}")
    sh(machine, "printf high >/dev/pm/higher")
    cut(machine)
    load(machine, source="")
    assert status(machine)["region_bytes"] == LARGER_BYTES  # though pm= says less
    assert sh(machine, "head -c 4 /dev/pm/higher").stdout == "high"


@pytest.mark.in_turn("size")
def test_a_smaller_size_never_cuts_off_a_segment(machine: Machine) -> None:
    assert not sh(machine, f"pmadmin resize-region {32 << 20}", check=False).ok
    # What could be when it was asked for need not be when it is to happen.
    sh(machine, "pmadmin destroy --yes higher && pmadmin destroy --yes high")
    sh(machine, f"pmadmin resize-region {32 << 20}")
    sh(machine, "pmadmin create high 20M && pmadmin create higher 20M")
    sh(machine, "printf high >/dev/pm/higher")
    reboot(machine)
    load(machine, source="")
    assert status(machine)["region_bytes"] == LARGER_BYTES
    assert status(machine)["wish_bytes"] == 0
    assert sh(machine, "head -c 4 /dev/pm/higher").stdout == "high"
    sh(machine, "pmadmin destroy --yes higher && pmadmin destroy --yes high")
    sh(machine, f"pmadmin resize-region {32 << 20}")
    reboot(machine)
    load(machine, source="")
    assert status(machine)["region_bytes"] == 32 << 20
    assert sh(machine, "head -c 7 /dev/pm/kept").stdout == "content"

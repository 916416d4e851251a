# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rings of more than 256 entries behind an IOMMU, allocated again at each resume.

Goal: a resume damages no memory. QEMU writes an entry that lies on two pages of a ring to two
neighbours of memory; kernel/patches/0019 makes them neighbours. Method: the kernel's own test of
suspend, again and again, beside a connection whose packets carry check sums. Negative proof: the
same on Debian's kernel, which lacks the patch, so that this goes red when QEMU no longer needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lab.addresses import HOST_ADDRESS
from lab.clients.process import ClientProcess
from lab.errors import HangError, RemError
from lab.machine import Machine
from lab.testbed.guest_job import GuestJob
from lab.testbed.no_stop import consoles
from lab.testbed.pm_guest import BOOT_LIMIT_S as STOCK_BOOT_LIMIT_S
from lab.testbed.pm_guest import stock_machine
from tests.support.claims import booted

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

CYCLES = 25
LIMIT_S = 30.0
MODULE = "/sys/module/suspend/parameters/pm_test_delay"
SUSPEND = f"echo 0 >{MODULE}; echo devices >/sys/power/pm_test; echo freeze >/sys/power/state"
SIGNS = ("is not a head!", "BUG: ", "Oops: ", "DMAR: [DMA Write")


def logged(machine: Machine) -> str:
    """The kernel's first line with a sign of damage."""
    lines = consoles(machine).splitlines()
    return next((line for line in lines if any(sign in line for sign in SIGNS)), "")


def damage(machine: Machine) -> str:
    """The first sign of damage in CYCLES of suspend and resume. A guest that hangs is one, too: the
    control below is why."""
    with ClientProcess(machine.network.exec_prefix(), "peer", host=HOST_ADDRESS) as peer:
        to = f"{HOST_ADDRESS}:{peer.started['ports'][0]}"
        job = GuestJob(machine, "rem-tcp", "--peer", to)
        found = ""
        for _ in range(CYCLES):
            try:
                machine.run_in_guest(f"{SUSPEND}; sleep 1", limit_s=LIMIT_S)
                found = job.failure() or "".join(peer.ask("status")["failures"])
            except RemError as error:
                found = logged(machine)
                if not found and not isinstance(error, HangError):
                    raise
                found = found or error.message
            if found := found or logged(machine):
                break
    return found


@contextmanager
def stock(name: str, iommu: bool) -> Iterator[Machine]:
    with stock_machine(f"t-rings-{name}") as machine:
        machine.config = replace(machine.config, iommu=iommu)
        machine.boot()
        machine.wait_up(STOCK_BOOT_LIMIT_S)
        yield machine


def test_resume_damages_nothing() -> None:
    with booted("rings", 1, "dpm") as machine:
        assert damage(machine) == ""


def test_scattered_rings_are_damaged() -> None:
    with stock("scattered", iommu=True) as machine:
        assert damage(machine)


def test_without_an_iommu_no_ring_is_scattered() -> None:
    """So what the test above finds is damage, and Debian's kernel can do these suspends."""
    with stock("plain", iommu=False) as machine:
        assert damage(machine) == ""

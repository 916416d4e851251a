# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rings of more than 256 entries behind an IOMMU, allocated again at each resume.

Goal: a resume damages no memory. QEMU writes an entry that lies on two pages of a ring to two
neighbours of memory; kernel/patches/0019 makes them neighbours. Method: the kernel's own test of
suspend, again and again, beside a connection whose packets carry check sums. Negative proof: the
same on Debian's kernel, which lacks the patch, so that this goes red when QEMU no longer needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from lab.addresses import HOST_ADDRESS
from lab.clients.process import ClientProcess
from lab.errors import RemError
from lab.machine import Machine
from lab.testbed.guest_job import GuestJob
from lab.testbed.pm_guest import BOOT_LIMIT_S as STOCK_BOOT_LIMIT_S
from lab.testbed.pm_guest import stock_machine
from tests.support.claims import booted, consoles

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

CYCLES = 25  # each of Debian's kernels was damaged within 15
LIMIT_S = 30.0
MODULE = "/sys/module/suspend/parameters/pm_test_delay"
SUSPEND = f"echo 0 >{MODULE}; echo devices >/sys/power/pm_test; echo freeze >/sys/power/state"
DAMAGE = ("is not a head!", "BUG: ", "Oops: ", "DMAR: [DMA Write")


def resumed(machine: Machine) -> int:
    """Cycles of suspend and resume until something is damaged, at most CYCLES."""
    with ClientProcess(machine.network.exec_prefix(), "peer", host=HOST_ADDRESS) as peer:
        to = f"{HOST_ADDRESS}:{peer.started['ports'][0]}"
        job = GuestJob(machine, "rem-tcp", "--peer", to)
        done = 0
        with suppress(RemError):
            while done < CYCLES:
                machine.run_in_guest(f"{SUSPEND}; sleep 1", limit_s=LIMIT_S)
                if job.failure() is not None or peer.ask("status")["failures"]:
                    break
                if any(word in consoles(machine) for word in DAMAGE):
                    break
                done += 1
    return done


@contextmanager
def stock(name: str, iommu: bool) -> Iterator[Machine]:
    with stock_machine(f"t-rings-{name}") as machine:
        machine.config = replace(machine.config, iommu=iommu)
        machine.boot()
        machine.wait_up(STOCK_BOOT_LIMIT_S)
        yield machine


def test_resume_damages_nothing() -> None:
    with booted("rings", 1, "dpm") as machine:
        assert resumed(machine) == CYCLES


def test_scattered_rings_are_damaged() -> None:
    with stock("scattered", iommu=True) as machine:
        assert resumed(machine) < CYCLES


def test_without_an_iommu_no_ring_is_scattered() -> None:
    """So what the test above finds is damage, and Debian's kernel can do these suspends."""
    with stock("plain", iommu=False) as machine:
        assert resumed(machine) == CYCLES

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what Stop copies home from DRAM has left the CPU caches, too, before the commit.

Method: the caches are volatile, and nothing but what was written back is on media. The negative
proof: a kernel that copies after its last write-back. The control runs on the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.cycle import stop_for_caches
from lab.testbed.mixed_checks import CACHE_BYTES, FITS, cut_and_resume, goes_on
from lab.testbed.mixed_guest import WorkingSet, mixed_guest, wait_count
from lab.testbed.planted import plant
from tests.support.claims import GO_LIMIT_S, machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PROFILE = "wsp-c5528"
FEW = FITS // 8  # under counted instructions all is slow


@pytest.fixture(scope="module")
def one() -> Iterator[WorkingSet]:
    kernel = need(Kernel("mutants")).bz_image
    with mixed_guest(machine_name("mixed-caches"), CACHE_BYTES, kernel=kernel, cpus=1) as machine:
        program = WorkingSet.start(machine, "caches", 2 * FEW, FEW)
        wait_count(machine, "used", FEW)
        stop_for_caches(machine, PROFILE)
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        yield program


def survives_two_cuts(one: WorkingSet) -> None:
    machine: Machine = one.machine
    for _ in range(2):
        goes_on(one, 8)
        cut_and_resume(machine)
    goes_on(one, 8)


def test_pages_of_dram_are_on_media(one: WorkingSet) -> None:
    survives_two_cuts(one)


def test_copy_after_the_last_write_back_is_found(one: WorkingSet) -> None:
    plant(one.machine, "dram-after-flush")
    with must_be_found("dram-after-flush"):
        survives_two_cuts(one)

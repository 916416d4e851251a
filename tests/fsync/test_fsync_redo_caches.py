# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what a flush that ended in memory has promised is in NVRAM, not in the CPU's caches.

Method: the caches of the CPU and of the disk are volatile, and the power fails without a Stop. The
negative proof: a kernel that leaves the data of the ring in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed import redo_guest as redo
from lab.testbed.cycle import stop_for_caches
from lab.testbed.planted import plant
from tests.fsync.test_fsync_redo_planted import begin, promises_are_kept
from tests.support.claims import GO_LIMIT_S, machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PROFILE = "wsp-c5528"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with redo.redo_guest(machine_name("redo-caches"), cpus=1) as made:
        stop_for_caches(made, PROFILE)
        made.resume()
        made.wait_resumed(GO_LIMIT_S)
        yield made


def test_what_a_flush_has_promised_is_on_media(machine: Machine) -> None:
    begin(machine)
    promises_are_kept(machine)


def test_data_that_is_left_in_the_caches_is_found(machine: Machine) -> None:
    begin(machine)
    plant(machine, "redo-data-in-cache")
    with must_be_found("redo-data-in-cache"):
        promises_are_kept(machine)

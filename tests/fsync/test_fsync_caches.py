# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what an fsync has acknowledged in memory is in NVRAM, not in the CPU caches before it.

Method: the caches are volatile, and the power fails without a Stop, so that media has what was
written back and nothing else. The same holds for what sync(2) has brought to the disk, and for what
was acknowledged by the cheaper policy once that is left. The negative proofs: kernels that leave
the data, the registry, what was synced or what the policy had in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.fsync_checks import (
    CACHE_BUGS,
    Check,
    appended_pages_are_found,
    cheaper_policy_is_left_whole,
    cheaper_policy_says_what_is_lost,
    later_changes_do_no_harm,
    mapped_stores_are_found,
    renamed_file_stays_whole,
    synced_pages_are_found,
    what_all_have_synced_stays,
)
from lab.testbed.fsync_guest import fsync_guest, lose_power, replay, state, witness
from lab.testbed.planted import NONE, plant
from tests.support.claims import GO_LIMIT_S, machine_name, stop_for_caches
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PROFILE = "wsp-c5528"
STEPS = 400
CHECKS = (
    synced_pages_are_found,
    appended_pages_are_found,
    mapped_stores_are_found,
    later_changes_do_no_harm,
    what_all_have_synced_stays,
    renamed_file_stays_whole,
    cheaper_policy_is_left_whole,
    cheaper_policy_says_what_is_lost,
)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    kernel = need(Kernel("mutants")).bz_image
    with fsync_guest(machine_name("fsync-caches"), kernel=kernel, cpus=1) as made:
        stop_for_caches(made, PROFILE)
        made.resume()
        made.wait_resumed(GO_LIMIT_S)
        yield made


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_what_was_acknowledged_is_on_media(machine: Machine, check: Check) -> None:
    assert state(machine) == "memory"
    check(machine, f"/root/{check.__name__}")


def test_all_kinds_of_changes_and_syncs_are_on_media(machine: Machine) -> None:
    with witness(machine, "/root/all-kinds", seed="caches", sweeps=True) as seen:
        seen.wait(STEPS)
        lose_power(machine)
    report = replay(machine)
    assert not report["damaged"] and not report["failed"], report
    assert seen.check() == []


@pytest.mark.parametrize("name", CACHE_BUGS)
def test_planted_bug_is_found_on_media(machine: Machine, name: str) -> None:
    plant(machine, name)
    with must_be_found(name):
        try:
            CACHE_BUGS[name](machine, f"/root/{name}")
        finally:
            if state(machine) != "memory":
                lose_power(machine)
                replay(machine, "--discard", check=False)
            plant(machine, NONE)

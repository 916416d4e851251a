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
    check_on_media,
    later_changes_do_no_harm,
    mapped_stores_are_found,
    renamed_file_stays_whole,
    synced_pages_are_found,
    what_all_have_synced_stays,
)
from lab.testbed.fsync_guest import caches_guest, lose_power, replay, state, witness
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

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
    with caches_guest(machine_name("fsync-caches"), need(Kernel("mutants")).bz_image) as made:
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
    with must_be_found(name):
        check_on_media(machine, name)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each rule of fsync that ends in memory, by a check of its own; and each planted bug of kernel and
loader is found by the check that it names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, Loader, need
from lab.testbed.fsync_checks import (
    CHECKS,
    Check,
    appended_pages_are_found,
    drained_pages_are_on_the_disk,
    later_changes_do_no_harm,
    left_state_keeps_nothing,
    mapped_stores_are_found,
    new_names_are_found,
    nothing_ends_in_memory_without_a_promise,
    repeated_replay_undoes_nothing,
    synced_pages_are_found,
    truncated_file_stays_so,
)
from lab.testbed.fsync_guest import fsync_guest, lose_power, replay, state
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import kernel_complaints
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

KERNEL_BUGS: dict[str, Check] = {
    "fsync-cleaned-early": drained_pages_are_on_the_disk,
    "fsync-keeps-state": left_state_keeps_nothing,
    "fsync-unpromised": nothing_ends_in_memory_without_a_promise,
    "fsync-forgets-truncation": truncated_file_stays_so,
    "fsync-stays-writable": mapped_stores_are_found,
    "fsync-old-size": appended_pages_are_found,
    "fsync-change-unsaid": later_changes_do_no_harm,
    "fsync-written-again": repeated_replay_undoes_nothing,
    "fsync-name-forgotten": new_names_are_found,
}
# One that has to be planted in the next boot, too.
AFTER_BOOT = ("fsync-written-again",)
LOADER_BUGS = ("registry-not-copied", "registry-not-kept")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """Kernel and loader with planted bugs, none of which is on."""
    kernel, loader = need(Kernel("mutants")).bz_image, need(Loader(mutants=True))
    with fsync_guest(machine_name("fsync-bugs"), kernel=kernel, loader=loader) as made:
        yield made


@pytest.mark.in_turn
@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_rule_holds(machine: Machine, check: Check) -> None:
    check(machine, f"/root/{check.__name__}")
    assert state(machine) == "memory"
    assert not kernel_complaints(machine)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", KERNEL_BUGS)
def test_planted_bug_is_found(machine: Machine, name: str) -> None:
    start_again(machine)
    plant(machine, name)
    again = {"booted": lambda: plant(machine, name)} if name in AFTER_BOOT else {}
    with must_be_found(name):
        try:
            KERNEL_BUGS[name](machine, f"/root/{name}", **again)
        finally:
            start_again(machine)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", LOADER_BUGS)
def test_planted_bug_of_the_loader_is_found(machine: Machine, name: str) -> None:
    start_again(machine)
    with must_be_found(name):
        try:
            synced_pages_are_found(machine, f"/root/{name}", mutant=name)
        finally:
            start_again(machine)


def start_again(machine: Machine) -> None:
    """Nothing planted, and in force."""
    if state(machine) == "memory":
        plant(machine, NONE)
        return
    lose_power(machine)
    replay(machine, "--discard", check=False)
    assert state(machine) == "memory"

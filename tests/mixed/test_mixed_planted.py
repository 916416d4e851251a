# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each planted bug of kernel/mixed is found by the check that it names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.mixed_guest import mixed_guest
from lab.testbed.planted import plant
from tests.support.claims import machine_name
from tests.support.mixed_checks import (
    CACHE_BYTES,
    Check,
    bound_is_kept,
    cleaned_pages_survive,
    ended_programs_leave_nothing,
    moves_lose_nothing,
    stores_survive,
)
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

BOUND = "remanence.preempt_off_us=2000000 remanence.hold_up_us=2008000"
BUGS: dict[str, tuple[Check, str]] = {
    "dram-not-home": (stores_survive, ""),
    "dram-half-home": (stores_survive, ""),
    "dram-not-filled": (stores_survive, ""),
    "dram-clean-early": (cleaned_pages_survive, ""),
    "dram-write-unseen": (cleaned_pages_survive, ""),
    "dram-down-stale": (moves_lose_nothing, ""),
    "dram-home-lost": (ended_programs_leave_nothing, ""),
    "dram-over-budget": (bound_is_kept, BOUND),
}


@pytest.fixture
def machine(name: str) -> Iterator[Machine]:
    """A machine for each bug: what it does to the memory of other programs stays in it."""
    kernel = need(Kernel("mutants")).bz_image
    _, words = BUGS[name]
    with mixed_guest(machine_name(name), CACHE_BYTES, words, kernel) as made:
        yield made


@pytest.mark.in_turn
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(machine: Machine, name: str) -> None:
    check, _ = BUGS[name]
    plant(machine, name)
    with must_be_found(name):
        check(machine)

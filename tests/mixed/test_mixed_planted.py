# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each planted bug of kernel/mixed is found by the check that it names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.campaign.mixed import BUGS
from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import CACHE_BYTES
from lab.testbed.mixed_guest import PROGRAMS, mixed_guest
from lab.testbed.planted import plant
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture
def machine(name: str) -> Iterator[Machine]:
    """A machine for each bug: what it does to the memory of other programs stays in it."""
    kernel = need(Kernel("mutants")).bz_image
    words = BUGS[name].words
    with mixed_guest(machine_name(name), CACHE_BYTES, words, kernel, programs=PROGRAMS) as made:
        yield made


@pytest.mark.in_turn
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(machine: Machine, name: str) -> None:
    bug = BUGS[name]
    bug.prepare(machine)
    plant(machine, name)
    with must_be_found(name):
        bug.check(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: where the kernel has DAMON and generations of pages (MGLRU), rules may go by them, and no
power failure loses what only DRAM had.

Method: the checks of test_mixed_policy.py on the kernel of kernel/config/tiering.config, under the
rule `damon`, and under `nomad` with generations in use.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.kernel import TIERING
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import CACHE_BYTES, CHECKS, Check, pages_take_turns, rule_holds
from lab.testbed.mixed_file_checks import copies_survive
from lab.testbed.mixed_guest import PROGRAMS, choose_rule, counts, mixed_guest
from lab.testbed.mixed_map_checks import mapped_copies_survive
from lab.testbed.pm_guest import sh
from tests.support.claims import machine_name, warnings

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

ALL = (*CHECKS, copies_survive, mapped_copies_survive)
GENERATIONS = "/sys/kernel/mm/lru_gen/enabled"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    kernel = need(Kernel(TIERING)).bz_image
    with mixed_guest(machine_name("tiering"), CACHE_BYTES, kernel=kernel, programs=PROGRAMS) as it:
        yield it


def choose(machine: Machine, name: str, generations: str = "n") -> None:
    sh(machine, f"echo {generations} >{GENERATIONS}")
    choose_rule(machine, name)


def monitors(machine: Machine) -> int:
    """How many threads DAMON has."""
    return int(sh(machine, "pgrep -c kdamond || true").stdout)


def test_monitor_runs_while_its_rule_is_in_force(machine: Machine) -> None:
    assert not monitors(machine)
    for _ in range(2):
        choose(machine, "damon")
        choose(machine, "damon")
        assert monitors(machine) == 1
        choose(machine, "heat")
        assert not monitors(machine)


@pytest.mark.parametrize(("name", "generations"), [("damon", "n"), ("nomad", "y")])
@pytest.mark.parametrize("check", ALL, ids=[check.__name__ for check in ALL])
def test_invariants_hold(machine: Machine, check: Check, name: str, generations: str) -> None:
    choose(machine, name, generations)
    rule_holds(machine, check)


def test_hot_regions_come_and_nothing_is_marked(machine: Machine) -> None:
    choose(machine, "damon")
    marked = counts(machine)["marked"]
    pages_take_turns(machine, "regions", "promoted", "demoted")
    assert counts(machine)["marked"] == marked
    assert monitors(machine) == 1, "the monitor goes on, too"


def test_pages_of_the_youngest_generations_come(machine: Machine) -> None:
    choose(machine, "nomad", "y")
    pages_take_turns(machine, "young", "mark_faults", "promoted", "demoted")
    assert not warnings(machine)

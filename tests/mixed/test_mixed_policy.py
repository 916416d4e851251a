# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: whichever rule chooses what comes to DRAM and what leaves it, no power failure loses what
only DRAM had; and the rules choose differently.

Method: the checks of test_mixed_memory.py and of pages of files, under each of the other rules of
dram/policy, which is changed while the machine runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.mixed_checks import (
    CACHE_BYTES,
    CHECKS,
    FITS,
    TOO_MANY,
    Check,
    cut_and_resume,
    empty,
    fill,
    goes_on,
    marked_pages_survive,
    pages_take_turns,
    rule_holds,
    stores_survive,
    working,
)
from lab.testbed.mixed_file_checks import copies_survive
from lab.testbed.mixed_guest import (
    MOVE_LIMIT_S,
    PROGRAMS,
    SYSFS,
    choose_rule,
    counts,
    mixed_guest,
    rules,
    wait_count,
)
from lab.testbed.mixed_map_checks import mapped_copies_survive
from lab.testbed.mixed_text_checks import LEAST
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from tests.support.claims import machine_name, warnings
from tests.support.turns import most_in_turn

pytestmark = [pytest.mark.full, pytest.mark.in_turn("rules"), pytest.mark.timeout(900)]

RULES = ("numa", "nomad")
ALL = (*CHECKS, marked_pages_survive, copies_survive, mapped_copies_survive)
SHORT_CHECKS = {stores_survive}  # in the turn of this file; the others have one each


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with mixed_guest(machine_name("policy"), CACHE_BYTES, programs=PROGRAMS) as made:
        yield made


def test_first_rule_is_heat(machine: Machine) -> None:
    assert rules(machine) == ["[heat]", "data", *RULES]


def test_text_and_files_may_stay_in_nvram(machine: Machine) -> None:
    """By the rule `data` only programs' own pages have frames."""
    with working(machine, "own-pages") as one:
        wait_count(machine, "text_used", LEAST)
        choose_rule(machine, "data")
        wait_until(
            lambda: not counts(machine)["text_used"] + counts(machine)["file_used"],
            "all copies to end",
            MOVE_LIMIT_S,
        )
        assert counts(machine)["used"] > FITS // 2
        cut_and_resume(machine)
        goes_on(one)
        assert not counts(machine)["text_used"] + counts(machine)["file_used"]
        choose_rule(machine, "heat")
        wait_count(machine, "text_used", LEAST)
        goes_on(one)


@pytest.mark.parametrize("name", ["", "hea", "heat numa", "lru"])
def test_rule_that_is_not_known_is_refused(machine: Machine, name: str) -> None:
    before = rules(machine)
    done = sh(machine, f"echo '{name}' >{SYSFS}/policy", check=False)
    assert not done.ok and "Invalid argument" in done.stderr
    assert rules(machine) == before


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("check", most_in_turn(ALL, always=SHORT_CHECKS))
def test_invariants_hold(machine: Machine, check: Check, name: str) -> None:
    choose_rule(machine, name)
    rule_holds(machine, check)


@pytest.mark.parametrize("name", RULES)
def test_pages_come_by_faults_and_leave_by_the_hand(machine: Machine, name: str) -> None:
    choose_rule(machine, name)
    pages_take_turns(machine, "by-faults", "marked", "mark_faults", "promoted", "demoted")


def test_scans_mark_nothing_for_heat(machine: Machine) -> None:
    choose_rule(machine, "heat")
    before = counts(machine)
    with working(machine, "by-scans") as one:
        empty(machine)
        fill(machine)
        goes_on(one)
    after = counts(machine)
    assert after["promoted"] > before["promoted"]
    assert after["marked"] == before["marked"]


@pytest.mark.in_turn
def test_rule_is_changed_while_programs_run(machine: Machine) -> None:
    with working(machine, "changed", hot=TOO_MANY, pages=2 * TOO_MANY, children=2) as one:
        for name in (*RULES, "heat", *reversed(RULES), "heat"):
            choose_rule(machine, name)
            goes_on(one, 8)
            cut_and_resume(machine)
            goes_on(one, 8)
    assert not warnings(machine)

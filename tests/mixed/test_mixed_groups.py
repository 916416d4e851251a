# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a control group has no more of DRAM than it may (memory.dram.max), with the groups below
it; its programs go on, and a power failure loses nothing of them.

Method: the kernel of kernel/config/filesystems.config, which has control groups of memory; programs
that check each of their pages run in groups with limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine import Machine
from lab.setup.kernel import GROUPS
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import CACHE_BYTES, Check, rule_holds
from lab.testbed.mixed_group_checks import (
    CHECKS,
    NO_LIMIT,
    Group,
    limit_is_kept,
    mount,
    reclaim_takes_pages_of_dram,
)
from lab.testbed.mixed_guest import PROGRAMS, choose_rule, mixed_guest
from lab.testbed.planted import plant
from lab.testbed.pm_guest import sh
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

RULES = ("heat", "numa")
BUGS = {
    "dram-group-unlimited": limit_is_kept,
    "dram-group-unreclaimed": reclaim_takes_pages_of_dram,
}


@contextmanager
def booted(name: str) -> Iterator[Machine]:
    kernel = need(Kernel(GROUPS)).bz_image
    with mixed_guest(name, CACHE_BYTES, kernel=kernel, programs=PROGRAMS) as made:
        mount(made)
        yield made


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with booted(machine_name("mixed-groups")) as made:
        yield made


def test_first_there_is_no_limit(machine: Machine) -> None:
    group = Group(machine, "first")
    assert (group.limit_text, group.pages) == (NO_LIMIT, 0)
    group.limit("4M")
    assert group.limit_text == str(4 << 20)
    for words in ("-1", "much"):
        done = sh(machine, f"echo '{words}' >{group.folder}/memory.dram.max", check=False)
        assert not done.ok and "Invalid argument" in done.stderr, words
    assert group.limit_text == str(4 << 20)
    group.end()


@pytest.mark.parametrize("policy", RULES)
@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_rule_holds(machine: Machine, check: Check, policy: str) -> None:
    choose_rule(machine, policy)
    rule_holds(machine, check)


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(name: str) -> None:
    with booted(machine_name(name)) as machine:
        plant(machine, name)
        with must_be_found(name):
            BUGS[name](machine)

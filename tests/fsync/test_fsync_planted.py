# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each rule of fsync that ends in memory, by a check of its own; and each planted bug of kernel and
loader is found by the check that it names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, Loader, need
from lab.testbed.fsync_checks import CHECKS, KERNEL_BUGS, LOADER_BUGS, Check, check_with_bug
from lab.testbed.fsync_guest import fsync_guest, state
from lab.testbed.pm_guest import kernel_complaints
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


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
@pytest.mark.parametrize("name", (*KERNEL_BUGS, *LOADER_BUGS))
def test_planted_bug_is_found(machine: Machine, name: str) -> None:
    with must_be_found(name):
        check_with_bug(machine, name)

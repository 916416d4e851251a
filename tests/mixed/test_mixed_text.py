# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: DRAM has copies of the kernel's hot text, and neither a power failure nor a kernel that
patches itself is in their way.

Method: the power fails while programs let the kernel work; Go begins in NVRAM, as the kernel would
end at once in DRAM that is blank. Planted bugs: test_mixed_planted.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import CACHE_BYTES, cut_and_resume, empty, fill, goes_on, working
from lab.testbed.mixed_guest import choose_rule, counts, mixed_guest, wait_count
from lab.testbed.mixed_text_checks import (
    LEAST,
    PATCH_LIMIT_S,
    text_follows_patches,
    text_survives,
)
from lab.testbed.waiting import wait_until
from tests.support.claims import machine_name, warnings

pytestmark = [pytest.mark.full, pytest.mark.in_turn("text"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    kernel = need(Kernel("mutants")).bz_image
    with mixed_guest(machine_name("mixed-text"), CACHE_BYTES, kernel=kernel) as made:
        yield made


def test_text_survives(machine: Machine) -> None:
    text_survives(machine)
    assert not warnings(machine)


def test_text_follows_patches(machine: Machine) -> None:
    text_follows_patches(machine)
    assert counts(machine)["text_used"] >= LEAST
    assert not warnings(machine)


def test_text_leaves_and_comes_again(machine: Machine) -> None:
    """With all other pages; and under rules that know nothing of the kernel's text."""
    with working(machine, "leaves") as one:
        wait_count(machine, "text_used", LEAST)
        empty(machine)
        assert counts(machine)["text_used"] == 0
        goes_on(one)
        fill(machine)
        wait_count(machine, "text_used", LEAST)
        choose_rule(machine, "numa")
        wait_until(lambda: not counts(machine)["text_used"], "text to leave", PATCH_LIMIT_S)
        choose_rule(machine, "heat")
        cut_and_resume(machine)
        goes_on(one)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (The Age of Core Memory, section 4, recommendation 4): other memories, such as HBM, are
levels of the same virtual memory: the hottest pages have the fastest one, and no power failure
loses any.

Method: a part of the machine's DRAM is called faster by the kernel's line. One program fills it,
another one uses its pages more often. Where these are is read from the memory that QEMU has of
that part: each page tells what it is (lab/testbed/page_words.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.mixed_checks import CACHE_BYTES, Check, rule_holds
from lab.testbed.mixed_guest import PAGE_BYTES, SYSFS, mixed_guest, state
from lab.testbed.mixed_level_checks import CHECKS, FAST_BYTES, LEVELS
from lab.testbed.pm_guest import sh
from tests.support.claims import machine_name

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.in_turn("file")]

WRONG = {
    "odd": ("3M@32M", "each of whole 2 MiB"),
    "overlap": ("4M@32M/4M@34M", "each of whole 2 MiB"),
    "end": ("8M@32M,", "SIZE@START"),
    "nothing": ("8M@", "SIZE@START"),
    "nowhere": ("8M@4G", "no DRAM for pages"),
}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with mixed_guest(machine_name("levels"), CACHE_BYTES, LEVELS) as made:
        yield made


def test_each_level_has_its_frames(machine: Machine) -> None:
    lines = [line.split() for line in sh(machine, f"cat {SYSFS}/levels").stdout.splitlines()]
    assert [line[0] for line in lines] == ["0", "1"]
    assert int(lines[0][2]) == FAST_BYTES // PAGE_BYTES
    assert 0 < int(lines[1][2]) <= (CACHE_BYTES - FAST_BYTES) // PAGE_BYTES


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_rule_holds(machine: Machine, check: Check) -> None:
    rule_holds(machine, check)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_levels_are_one_line_and_no_dram_is_used(name: str) -> None:
    levels, said = WRONG[name]
    line = f"remanence.dram_levels={levels}"
    with mixed_guest(machine_name(name), CACHE_BYTES, line, programs=()) as made:
        assert state(made) == "off: remanence.dram_levels or dram_max_kib is wrong"
        log = sh(made, "dmesg").stdout.splitlines()
        assert sum(f"dram_levels={levels}: " in one and said in one for one in log) == 1

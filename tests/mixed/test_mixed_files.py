# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: with pages of files in DRAM programs read what the files have: while they change, while
their pages leave the page cache or move, and over Stop and Go.

Method: a program that knows what each page of its files has to hold, from the number of the round
alone (lab/testbed/file_pages.c). Negative proofs: test_mixed_planted.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.mixed_checks import (
    CACHE_BYTES,
    FITS,
    TOO_MANY,
    Check,
    cut_and_resume,
    goes_on,
    rule_holds,
)
from lab.testbed.mixed_file_checks import FILE_CHECKS, PAGES
from lab.testbed.mixed_guest import (
    PROGRAMS,
    FilePages,
    WorkingSet,
    counts,
    mixed_guest,
    wait_count,
)
from lab.testbed.pm_guest import kernel_complaints
from tests.support.claims import machine_name

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with mixed_guest(machine_name("mixed-files"), CACHE_BYTES, programs=PROGRAMS) as made:
        yield made


@pytest.mark.in_turn
@pytest.mark.parametrize("check", FILE_CHECKS, ids=[check.__name__ for check in FILE_CHECKS])
def test_rule_of_files_holds(machine: Machine, check: Check) -> None:
    rule_holds(machine, check)


@pytest.mark.in_turn
def test_files_and_memory_share_dram(machine: Machine) -> None:
    """Both get frames, by one level, and both go on over a cut, though not all has room."""
    files = FilePages.start(machine, "shared", PAGES)
    memory = WorkingSet.start(machine, "shared-memory", 2 * TOO_MANY, FITS)
    large = WorkingSet.start(machine, "large-memory", 2 * TOO_MANY, TOO_MANY, pause_us=200_000)
    programs = (files, memory, large)
    try:
        wait_count(machine, "file_used", 1)
        for _ in range(2):
            for one in programs:
                goes_on(one, 4)
            found = counts(machine)
            assert 0 < found["file_used"] < found["used"] <= found["frames"]
            cut_and_resume(machine)
        for one in programs:
            goes_on(one, 4)
    finally:
        for one in programs:
            one.stop()
    assert not kernel_complaints(machine)

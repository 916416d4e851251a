# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (The Age of Core Memory, section 4): processes that do not run have their pages in NVRAM,
DRAM is for those that do, and to have thousands of them costs a scan nothing.

Method: as in test_mixed_memory.py, with processes that wait beside a program that works.
"""

from __future__ import annotations

import pytest

from lab.machine import Machine
from lab.testbed.mixed_checks import CACHE_BYTES, FITS, PAGES, cut_and_resume, goes_on
from lab.testbed.mixed_guest import (
    PAGE_BYTES,
    IdleProcesses,
    WorkingSet,
    counts,
    mixed_guest,
    wait_count,
)
from tests.support.claims import machine_name, warnings

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]

PROCESSES = 2_000
# So many that theirs would fill DRAM twice.
PAGES_EACH = 2 * CACHE_BYTES // PAGE_BYTES // PROCESSES
# Fewer than any process has: they map its program and libraries, too.
ENTRIES_EACH = 20
SCANS = 10
IDLE_SCANS = 40  # and more, until a process counts as one that waits: heat.c


def scanned_each(machine: Machine) -> float:
    """Entries of page tables that a scan looks at now."""
    before = counts(machine)
    wait_count(machine, "scans", before["scans"] + SCANS)
    after = counts(machine)
    return (after["scanned"] - before["scanned"]) / (after["scans"] - before["scans"])


def test_thousands_of_processes_wait_in_nvram() -> None:
    programs = ("working_set", "idle_processes")
    with mixed_guest(machine_name("mixed-idle"), CACHE_BYTES, programs=programs) as machine:
        idle = IdleProcesses.start(machine, "idle", PROCESSES, PAGES_EACH)
        before = counts(machine)
        assert before["used"] > before["frames"] // 2, "they have begun in DRAM"
        one = WorkingSet.start(machine, "works", PAGES, FITS)
        wait_count(machine, "demoted", before["demoted"] + FITS // 2)
        wait_count(machine, "scans", counts(machine)["scans"] + IDLE_SCANS)
        goes_on(one, 8)
        assert scanned_each(machine) < PROCESSES * ENTRIES_EACH
        cut_and_resume(machine)
        goes_on(one, 8)
        idle.wake()
        assert not warnings(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold of pages of files that programs have mapped where DRAM caches NVRAM: each check
raises BrokenError. As in mixed_file_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.machine import Machine
from lab.testbed.mixed_checks import (
    FITS,
    Check,
    cut_and_resume,
    empties_and_fills,
    goes_on,
    has_grown,
    outlasts_pressure,
    witnessed,
)
from lab.testbed.mixed_guest import MappedPages, counts, wait_count
from lab.testbed.pm_guest import sh
from lab.verdict import BrokenError

PAGES = FITS // 4  # of the first file
ROUNDS = 6
EVERY = 24  # rounds between two changes of a page: mapped_pages.c
SHORT = 32  # pages of the second file: the same
MOVES = 3


@contextmanager
def mapping(machine: Machine, name: str) -> Iterator[MappedPages]:
    """A program that has its file mapped, and whose pages have come to DRAM."""
    before = counts(machine)
    with witnessed():
        one = MappedPages.start(machine, name, PAGES)
        wait_count(machine, "file_used", PAGES // 2)
        wait_count(machine, "file_mapped", before["file_mapped"] + PAGES)
        yield one
    one.stop()


def mapped_copies_survive(machine: Machine) -> None:
    """After Go programs find in their mappings what their files have."""
    with mapping(machine, "mapped-cut") as one:
        for _ in range(2):
            goes_on(one, ROUNDS)
            cut = cut_and_resume(machine)
            if cut.filled < PAGES // 2:
                raise BrokenError("promises-broken", f"Go has filled {cut.filled} pages")
            goes_on(one, ROUNDS)


def mapped_changes_are_seen(machine: Machine) -> None:
    """What is written by write(), by another mapping, or directly, is there at once."""
    with mapping(machine, "mapped-changed") as one:
        before = counts(machine)
        goes_on(one, EVERY + 1)
        for name in ("file_changed", "file_left"):
            has_grown(machine, name, PAGES // EVERY, before)


def cut_pages_are_gone(machine: Machine) -> None:
    """Who has mapped a file that ends earlier, and grows again, finds zeros there."""
    with mapping(machine, "mapped-short") as one:
        before = counts(machine)
        goes_on(one, 3 * EVERY)
        has_grown(machine, "file_left", SHORT // 4, before)


def moved_pages_are_mapped(machine: Machine) -> None:
    """The kernel may move a page, whatever maps it."""
    with mapping(machine, "mapped-moved") as one:
        before = counts(machine)
        for _ in range(MOVES):
            sh(machine, "echo 1 >/proc/sys/vm/compact_memory")
            goes_on(one, ROUNDS)
        has_grown(machine, "file_moved", 1, before)


def emptied_copies_are_not_mapped(machine: Machine) -> None:
    with mapping(machine, "mapped-emptied") as one:
        empties_and_fills(one, ROUNDS)


def reclaim_takes_what_is_mapped(machine: Machine) -> None:
    """A program that needs most of the memory gets it."""
    with mapping(machine, "mapped-pressed") as one:
        outlasts_pressure(one, ROUNDS)


MAP_CHECKS: tuple[Check, ...] = (
    mapped_copies_survive,
    mapped_changes_are_seen,
    cut_pages_are_gone,
    moved_pages_are_mapped,
    emptied_copies_are_not_mapped,
    reclaim_takes_what_is_mapped,
)

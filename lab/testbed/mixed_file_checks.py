# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold of pages of files where DRAM caches NVRAM: each check raises BrokenError.

As in mixed_checks.py. The program checks each page in each round, and changes it in several ways.
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
from lab.testbed.mixed_guest import MOVE_LIMIT_S, FilePages, counts, wait_count
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

PAGES = FITS // 2  # of the first file
ROUNDS = 8
EVERY = 24  # rounds between two changes of a page: file_pages.c
DROPS = 3
HALF = 0.5  # of the reads, at least: other programs read, too, and pages that were written just now


def dram_share(machine: Machine, one: FilePages) -> float:
    """Of all reads of files while a program goes on, those that DRAM serves."""
    before = counts(machine)
    goes_on(one, ROUNDS)
    after = counts(machine)
    dram, nvram = (after[name] - before[name] for name in ("file_reads_dram", "file_reads_nvram"))
    return dram / (dram + nvram)


@contextmanager
def reading(machine: Machine, name: str) -> Iterator[FilePages]:
    """A program that reads a file, and pages of files in DRAM: its own, or a compiler's before."""
    with witnessed():
        one = FilePages.start(machine, name, PAGES)
        wait_count(machine, "file_used", PAGES // 2)
        yield one
    one.stop()


def files_are_read_from_dram(machine: Machine) -> None:
    """Most reads of hot pages are served by DRAM, once they have come to it."""
    with reading(machine, "read") as one:
        wait_until(
            lambda: dram_share(machine, one) >= HALF, "reads to be served by DRAM", MOVE_LIMIT_S
        )
        share = dram_share(machine, one)
    if share < HALF:
        raise BrokenError("does-not-continue", f"{share:.2f} of the reads are served by DRAM")


def copies_survive(machine: Machine) -> None:
    """After Go a program reads what its files have, though DRAM has lost its copies."""
    with reading(machine, "cut") as one:
        for _ in range(2):
            before = counts(machine)
            cut = cut_and_resume(machine)
            if cut.filled < PAGES // 2:
                raise BrokenError("promises-broken", f"Go has filled {cut.filled} pages: {before}")
            goes_on(one, ROUNDS)


def changes_are_read(machine: Machine) -> None:
    """What was written by write(), to a mapping, or directly, is read at once."""
    with reading(machine, "changed") as one:
        before = counts(machine)
        goes_on(one, EVERY)
        # A third of the changes each; direct writes take the page out of the page cache.
        for name in ("file_changed", "file_left"):
            has_grown(machine, name, PAGES // EVERY, before)


def dropped_pages_are_gone(machine: Machine) -> None:
    """Pages of NVRAM that the page cache has given back are read as what they are then."""
    before = counts(machine)
    with reading(machine, "dropped") as one:
        for _ in range(DROPS):
            sh(machine, "echo 1 >/proc/sys/vm/drop_caches")
            goes_on(one, ROUNDS)
            wait_count(machine, "file_used", PAGES // 2)
    has_grown(machine, "file_left", DROPS * PAGES // 4, before)


def moved_pages_are_read(machine: Machine) -> None:
    """The kernel may move a page; its old place is read as what it is then."""
    before = counts(machine)
    with reading(machine, "moved") as one:
        for _ in range(DROPS):
            sh(machine, "echo 1 >/proc/sys/vm/compact_memory")
            goes_on(one, 2)
            sh(machine, "echo 1 >/proc/sys/vm/drop_caches")
            goes_on(one, ROUNDS)
            wait_count(machine, "file_used", PAGES // 2)
    has_grown(machine, "file_moved", PAGES // 8, before)


def emptied_copies_are_gone(machine: Machine) -> None:
    with reading(machine, "emptied") as one:
        empties_and_fills(one, ROUNDS)


def reclaim_takes_what_is_copied(machine: Machine) -> None:
    """A program that needs most of the memory gets it."""
    with reading(machine, "short") as one:
        outlasts_pressure(one, ROUNDS)


FILE_CHECKS: tuple[Check, ...] = (
    files_are_read_from_dram,
    copies_survive,
    changes_are_read,
    dropped_pages_are_gone,
    moved_pages_are_read,
    emptied_copies_are_gone,
    reclaim_takes_what_is_copied,
)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold where a part of the DRAM that caches NVRAM is faster than the rest: a level of its
own (kernel/mixed/levels.c). Each check begins with a machine of CACHE_BYTES that has LEVELS on the
kernel's line, and ends with one that is up, if nothing is broken.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import RemError
from lab.machine import Machine
from lab.testbed.mixed_checks import (
    EVERY,
    FITS,
    Check,
    cut_and_resume,
    empties_and_fills,
    goes_on,
    witnessed,
)
from lab.testbed.mixed_guest import MIB_BYTES, PAGE_BYTES, SYSFS, WorkingSet, counts, wait_count
from lab.testbed.page_words import told_by
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

FAST_BYTES = 8 * MIB_BYTES
FAST_START = 32 * MIB_BYTES  # inside of what is a cache: lab/testbed/mixed_guest.py
LEVELS = f"remanence.dram_levels={FAST_BYTES // MIB_BYTES}M@{FAST_START // MIB_BYTES}M"
WARM = FITS  # pages that alone fill the fast level
HOT = FITS // 2
WARM_PAUSE_US = 400_000
PLACE_LIMIT_S = 150.0


@contextmanager
def _warm_and_hot(machine: Machine) -> Iterator[tuple[WorkingSet, WorkingSet]]:
    """Two programs. The first has taken the fast level, the second uses its pages all the time."""
    with witnessed():
        warm = WorkingSet.start(machine, "warm", WARM, WARM, WARM_PAUSE_US, children=0)
        wait_count(machine, "used", WARM * 3 // 4)
        hot = WorkingSet.start(machine, "hot", HOT, HOT, children=0)
        yield warm, hot
    hot.stop()
    warm.stop()


def _pages_in_fast(machine: Machine, one: WorkingSet) -> int:
    """How many pages of a program are in the fast level, as QEMU has it: they tell what they are.

    They have been written in the last rounds: a frame that is free keeps what it had.
    """
    assert machine.qemu is not None
    since = one.round() - EVERY
    with tempfile.TemporaryDirectory(prefix="rem-levels-") as folder:
        path = Path(folder) / "fast"
        machine.qemu.qmp.execute("pmemsave", val=FAST_START, size=FAST_BYTES, filename=str(path))
        data = path.read_bytes()
    found = set()
    for at in range(0, FAST_BYTES, PAGE_BYTES):
        page = told_by(data[at : at + PAGE_BYTES])
        if page is not None and page.number < HOT and page.version >= since:
            found.add(page.number)
    return len(found)


def _has_fast_level(machine: Machine, warm: WorkingSet, hot: WorkingSet) -> bool:
    # Until then their pages could be taken for each other's.
    return hot.round() > 2 * warm.round() + EVERY and _pages_in_fast(machine, hot) >= HOT * 3 // 4


def hottest_come_to_the_fastest(machine: Machine) -> None:
    """What is used most has the fast level, though others were there first."""
    with _warm_and_hot(machine) as (warm, hot):
        try:
            wait_until(
                lambda: _has_fast_level(machine, warm, hot),
                "the hottest pages to have the fast level",
                PLACE_LIMIT_S,
            )
        except RemError as error:
            levels = sh(machine, f"cat {SYSFS}/levels").stdout.splitlines()
            raise BrokenError(
                "promises-broken", f"{error.message}: {levels}, {counts(machine)}"
            ) from error
        for one in (warm, hot):
            goes_on(one, 4)


def sorted_pages_survive(machine: Machine) -> None:
    """Pages that change their level while programs use them are each as new as its last store,
    before and after a cut."""
    before = counts(machine)["sorted"]
    with _warm_and_hot(machine) as (warm, hot):
        wait_count(machine, "sorted", before + HOT // 4, checkers=(warm, hot))
        for one in (warm, hot):
            goes_on(one, 4)
        cut_and_resume(machine)
        for one in (warm, hot):
            goes_on(one, 8)
        empties_and_fills(hot, 4)


CHECKS: tuple[Check, ...] = (hottest_come_to_the_fastest, sorted_pages_survive)

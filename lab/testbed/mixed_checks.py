# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold where DRAM caches NVRAM: each check raises BrokenError by its verdict.

Each begins with a machine that is up, with a cache of CACHE_BYTES, and ends with one that is up, if
nothing is broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.errors import RemError
from lab.machine import Machine
from lab.record.block import decode, read_block
from lab.testbed import cycle
from lab.testbed import mixed_guest as guest
from lab.testbed.mixed_guest import (
    MIB_BYTES,
    PAGE_BYTES,
    Checker,
    ShortLives,
    WorkingSet,
    counts,
    state,
    wait_count,
)
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError, StuckError, after_go

CACHE_BYTES = 24 * MIB_BYTES  # of which firmware takes some
FITS = CACHE_BYTES // PAGE_BYTES // 3  # hot pages that have room beside those of others
TOO_MANY = CACHE_BYTES // PAGE_BYTES * 3 // 2
PAGES = 3 * FITS
EVERY = 4  # rounds in which each hot page is written: working_set.c
MOVES = 3
LIFE_S = 10  # of a child, and more: working_set.c
LIVES = 4  # of programs whose memory has to be free afterwards
SHORT = FITS // 4  # pages of each kind of a short-lived process, of which it has four
SHORT_US = 20_000  # that it waits, with all its pages
SAMPLES = 40
SAMPLE_S = 0.2


@dataclass(frozen=True)
class Cut:
    """What a Stop and a Go have said."""

    copied: int  # pages that the Stop brought home
    filled: int  # pages that Go brought to DRAM


def cut_and_resume(machine: Machine) -> Cut:
    """One power failure; what it has moved."""
    machine.guest.close()
    with after_go():
        cycle.cut_and_resume(machine)
        sh(machine, "true")
    newest = decode(read_block(machine.files.seen(machine.config))).newest
    values = {event.type: event.value for event in newest.timeline} if newest else {}
    return Cut(values.get("STOP_DRAM", 0), values.get("GO_DRAM", 0))


def rule_holds(machine: Machine, check: Check) -> None:
    """A check is green, and the kernel has nothing to complain of."""
    check(machine)
    assert state(machine) == "on"
    assert not kernel_complaints(machine)


def has_grown(machine: Machine, name: str, least: int, before: dict[str, int]) -> None:
    """What a check is about has happened, or the check has shown nothing: a count has grown.

    To be called at its end: a kernel with a planted bug may not count.
    """
    found = counts(machine)[name]
    assert found >= before[name] + least, f"{name} has not grown by {least}: {found}"


@contextmanager
def witnessed() -> Iterator[None]:
    """The guest's own programs are as good witnesses: what lets them fail is found, too."""
    try:
        yield
    except (BrokenError, StuckError):
        raise
    except RemError as error:
        raise BrokenError("does-not-continue", error.message) from error


@contextmanager
def working(
    machine: Machine, name: str, hot: int = FITS, pages: int = PAGES, children: int = 1
) -> Iterator[WorkingSet]:
    """A program whose hot pages have come to DRAM, as far as they have room."""
    with witnessed():
        one = WorkingSet.start(machine, name, pages, hot, children=children)
        wait_count(machine, "used", min(hot * 3, CACHE_BYTES // PAGE_BYTES * 2) // 4)
        yield one
    # Not after a failure, which may be that nothing can be asked any more.
    one.stop()


def goes_on(one: Checker, rounds: int = 20) -> None:
    """All its pages have what they had: it checks them in each round."""
    with after_go():
        one.wait_rounds(rounds)


def pages_take_turns(machine: Machine, name: str, *grow: str) -> None:
    """Of more pages than DRAM has those that come find room that others have left, and a cut loses
    none. *grow* are counts that tell of it."""
    with working(machine, name, hot=TOO_MANY, pages=2 * TOO_MANY) as one:
        before = counts(machine)
        for count in grow:
            wait_count(machine, count, before[count] + FITS // 8)
        cut_and_resume(machine)
        goes_on(one)


def stores_survive(machine: Machine) -> None:
    """What a program has stored to DRAM is there after a cut, and so is what it only reads."""
    with working(machine, "stores") as one:
        wait_count(machine, "dirty", 1)
        before = one.round()
        cut = cut_and_resume(machine)
        if not cut.copied or not cut.filled:
            raise BrokenError("promises-broken", f"nothing was copied: {cut}")
        if one.round() < before:
            raise BrokenError("promises-broken", f"round {one.round()} after {before}")
        goes_on(one)


def cleaned_pages_survive(machine: Machine) -> None:
    """A page that was copied home, and was written again since, is as new as its last store.

    Each is copied home when it has moved up. No child is there: with one a page is written by a
    fault of another kind.
    """
    with working(machine, "cleaned", children=0) as one:
        before = counts(machine)["cleaned"]
        empty(machine)  # they have begun in DRAM, and have not moved
        fill(machine)
        wait_count(machine, "cleaned", before + FITS // 8)
        one.wait_rounds(2 * EVERY)
        cut_and_resume(machine)
        goes_on(one)


def shared_pages_survive(machine: Machine) -> None:
    """Pages that a child has shared since they were written are there after a cut, for both."""
    with working(machine, "shared", children=2) as one:
        for _ in range(2):
            wait_count(machine, "dirty", FITS // 4)
            cut_and_resume(machine)
            goes_on(one)
            time.sleep(LIFE_S)
            goes_on(one)


def marked_pages_survive(machine: Machine) -> None:
    """Pages of NVRAM that were marked (dram/policy), and then shared with a child, are each one's
    own when either stores to them. More are used than DRAM has, so that some stay in NVRAM."""
    with working(machine, "marked", hot=TOO_MANY, pages=2 * TOO_MANY, children=2) as one:
        for _ in range(3):
            before = counts(machine)
            time.sleep(LIFE_S)
            goes_on(one, EVERY)
            has_grown(machine, "mark_faults", FITS // 8, before)
        cut_and_resume(machine)
        goes_on(one, EVERY)


def moves_lose_nothing(machine: Machine) -> None:
    """Pages that go up and down while a program stores to them have what they had."""
    with working(machine, "moves", hot=TOO_MANY, pages=2 * TOO_MANY) as one:
        for _ in range(MOVES):
            empties_and_fills(one, EVERY)
        cut_and_resume(machine)
        goes_on(one)


def empties_and_fills(one: Checker, rounds: int) -> None:
    """A program goes on while all pages of DRAM go home, and when they come again."""
    for move in (empty, fill):
        move(one.machine)
        goes_on(one, rounds)


def outlasts_pressure(one: Checker, rounds: int) -> None:
    """Another program needs most of the memory, and gets it."""
    sh(one.machine, "python3 -c 'b = bytearray(400 << 20); print(len(b))'")
    goes_on(one, rounds)


def empty(machine: Machine) -> None:
    """All pages of DRAM go home, but those that are in use by the kernel just then."""
    sh(machine, f"echo empty >{guest.SYSFS}/state")
    few = counts(machine)["frames"] // 100
    wait_until(lambda: counts(machine)["used"] <= few, "DRAM to be empty", guest.MOVE_LIMIT_S)


def fill(machine: Machine) -> None:
    sh(machine, f"echo on >{guest.SYSFS}/state")
    wait_count(machine, "used", counts(machine)["frames"] // 8)


def emptied_pages_are_home(machine: Machine) -> None:
    """What DRAM had is in NVRAM: the program goes on, and a Stop has nothing to copy of it."""
    with working(machine, "emptied") as one:
        empty(machine)
        goes_on(one)
        few = counts(machine)["frames"] // 100
        cut = cut_and_resume(machine)
        if cut.copied > few:
            raise BrokenError("promises-broken", f"{cut.copied} pages of DRAM were not at home")
        goes_on(one)
    sh(machine, f"echo on >{guest.SYSFS}/state")


def bound_is_kept(machine: Machine) -> None:
    """No more pages differ from their homes than a Stop may copy, whatever programs store."""
    most = counts(machine)["dirty_max"]
    with working(machine, "bound") as one:
        found = 0
        for _ in range(SAMPLES):
            found = max(found, counts(machine)["dirty"])
            time.sleep(SAMPLE_S)
        if found > most:
            raise BrokenError("over-budget", f"{found} pages differ, not at most {most}")
        cut = cut_and_resume(machine)
        if cut.copied > most:
            raise BrokenError("over-budget", f"a Stop has copied {cut.copied} pages, not {most}")
        goes_on(one)


def ended_programs_leave_nothing(machine: Machine) -> None:
    """Frames are free when their program has ended, and so is what was kept for them.

    Other memory comes and goes, too: what programs leave, they leave each time.
    """
    left_bytes = [_left_bytes(machine) for _ in range(2)]
    if min(left_bytes) > LIVES * FITS * PAGE_BYTES // 2:
        raise BrokenError("promises-broken", f"{LIVES} programs have left {left_bytes} bytes")


def _left_bytes(machine: Machine) -> int:
    """What is not free any more after some programs."""
    before_bytes = guest.available_bytes(machine)
    for _ in range(LIVES):
        with working(machine, "ended"):
            used = counts(machine)["used"]
        try:
            wait_until(
                lambda used=used: counts(machine)["used"] <= used - FITS // 2,  # type: ignore[misc]
                "frames to be free",
                30.0,
            )
        except RemError as error:
            raise BrokenError("promises-broken", f"{error.message}: {counts(machine)}") from error
    return before_bytes - guest.available_bytes(machine)


def short_lives_survive(machine: Machine) -> None:
    """What processes have just stored to new pages, and to copies of those that they share, is
    there after a cut. They live for less than a scan."""
    with witnessed():
        before = counts(machine)
        one = ShortLives.start(machine, "short-lives", SHORT, SHORT_US)
        for _ in range(3):
            goes_on(one, 4)
            cut_and_resume(machine)
        goes_on(one, 8)
        began = counts(machine)["began"] - before["began"]
        if began < 12 * SHORT:
            raise BrokenError("does-not-continue", f"only {began} pages began in DRAM")
    one.stop()


Check = Callable[[Machine], None]
CHECKS: tuple[Check, ...] = (
    stores_survive,
    cleaned_pages_survive,
    shared_pages_survive,
    short_lives_survive,
    moves_lose_nothing,
    emptied_pages_are_home,
    bound_is_kept,
    ended_programs_leave_nothing,
)

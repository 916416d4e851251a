# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold of the share of DRAM that a control group may have (kernel/mixed/group.c)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.machine import Machine
from lab.testbed.mixed_checks import (
    CACHE_BYTES,
    EVERY,
    FITS,
    PAGES,
    cut_and_resume,
    goes_on,
    witnessed,
)
from lab.testbed.mixed_guest import MIB_BYTES, PAGE_BYTES, FilePages, WorkingSet, counts
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

CGROUPS = "/sys/fs/cgroup"
LIMIT_BYTES = 3 * MIB_BYTES  # more than a huge page, which comes whole
LIMIT_PAGES = LIMIT_BYTES // PAGE_BYTES
NO_LIMIT = "max"
MEMORY_BYTES = FITS * PAGE_BYTES // 2  # less than a program has whose pages are all hot
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"  # such as have no room are in NVRAM
SWAP = "/var/tmp/swap"
SETTLE_LIMIT_S = 60.0
ROUNDS = 40  # of a program, in which scans have moved what they will
assert 2 * LIMIT_PAGES < FITS, "without the limit it has more"
assert 4 * LIMIT_BYTES < CACHE_BYTES


class Group:
    """A control group of memory, below the root or below another one."""

    def __init__(self, machine: Machine, name: str, above: Group | None = None) -> None:
        self.machine = machine
        self.folder: str = f"{above.folder if above else CGROUPS}/{name}"
        sh(machine, f"mkdir {self.folder}")

    def share(self) -> None:
        """Groups below it count their memory, too."""
        sh(self.machine, f"echo +memory >{self.folder}/cgroup.subtree_control")

    def limit(self, value: int | str) -> None:
        sh(self.machine, f"echo {value} >{self.folder}/memory.dram.max")

    @property
    def limit_text(self) -> str:
        return self.read("memory.dram.max").strip()

    @property
    def pages(self) -> int:
        """What it has in DRAM now."""
        return int(self.read("memory.dram.current")) // PAGE_BYTES

    def read(self, name: str) -> str:
        return sh(self.machine, f"cat {self.folder}/{name}").stdout

    def end(self) -> None:
        """When its processes are gone."""
        sh(self.machine, f"until rmdir {self.folder} 2>/dev/null; do sleep 0.1; done")


def mount(machine: Machine) -> None:
    """Control groups, with that of memory for those below the root."""
    sh(
        machine,
        f"mountpoint -q {CGROUPS} || mount -t cgroup2 none {CGROUPS};"
        f" echo +memory >{CGROUPS}/cgroup.subtree_control",
    )


@contextmanager
def working_in(group: Group, name: str, pages: int = PAGES) -> Iterator[WorkingSet]:
    """A program in the group, with more hot pages than LIMIT_BYTES."""
    with witnessed():
        one = WorkingSet.start(group.machine, name, pages, FITS, group=group.folder)
        yield one
    one.stop()


def _check_share(group: Group, most: int) -> None:
    if (found := group.pages) > most:
        raise BrokenError("promises-broken", f"{group.folder} has {found} pages, not {most}")


def limit_is_kept(machine: Machine) -> None:
    """A program never has more of DRAM than its group may, and goes on beside it, and after a cut;
    without the limit it has more."""
    group = Group(machine, "limited")
    group.limit(LIMIT_BYTES)
    before = counts(machine)["limited"]
    with working_in(group, "limited") as one:
        for _ in range(ROUNDS):
            one.wait_rounds(1)
            _check_share(group, LIMIT_PAGES)
        if group.pages < LIMIT_PAGES // 2:
            raise BrokenError("does-not-continue", f"it has {group.pages} pages, and may have more")
        assert counts(machine)["limited"] > before, "nothing was refused"
        cut_and_resume(machine)
        goes_on(one)
        _check_share(group, LIMIT_PAGES)
        group.limit(NO_LIMIT)
        _wait_pages(group, 2 * LIMIT_PAGES, PAGES)
    _wait_pages(group, 0, 0)
    group.end()


def lowered_limit_moves_pages_down(machine: Machine) -> None:
    """What a group has over a new limit goes home, and its program goes on; so do pages of a
    program that does not run, and copies of files."""
    group = Group(machine, "lowered")
    with working_in(group, "lowered") as one:
        files = FilePages.start(machine, "lowered-files", FITS // 2, group.folder)
        _wait_pages(group, 2 * LIMIT_PAGES, PAGES)
        sh(machine, f"echo 1 >{group.folder}/cgroup.freeze")
        group.limit(LIMIT_BYTES)
        _wait_pages(group, 0, LIMIT_PAGES)
        group.limit(0)
        _wait_pages(group, 0, 0)
        sh(machine, f"echo 0 >{group.folder}/cgroup.freeze")
        goes_on(one)
        goes_on(files)
        cut_and_resume(machine)
        goes_on(one)
        goes_on(files)
        files.stop()
    group.end()


def limit_counts_those_below(machine: Machine) -> None:
    """Two groups together have no more than the one above them may."""
    above = Group(machine, "above")
    above.share()
    above.limit(LIMIT_BYTES)
    below = [Group(machine, name, above) for name in ("one", "two")]
    with working_in(below[0], "below-one") as one, working_in(below[1], "below-two") as two:
        for _ in range(ROUNDS // 2):
            one.wait_rounds(1)
            two.wait_rounds(1)
            _check_share(above, LIMIT_PAGES)
        if above.pages < LIMIT_PAGES // 2:
            raise BrokenError("does-not-continue", f"they have {above.pages} pages")
    for group in (*below, above):
        _wait_pages(group, 0, 0)
        group.end()


def reclaim_takes_pages_of_dram(machine: Machine) -> None:
    """A group that may have less memory than its program needs is swapped out, though DRAM has
    all its pages; nothing of it is killed, and its program goes on, also after a cut."""
    sh(
        machine,
        f"echo never >{HUGE_PAGES}; swapoff {SWAP} 2>/dev/null;"
        f" dd if=/dev/zero of={SWAP} bs=1M count=64 2>/dev/null &&"
        f" chmod 600 {SWAP} && mkswap {SWAP} >/dev/null && swapon {SWAP}",
    )
    group = Group(machine, "reclaimed")
    sh(machine, f"echo {MEMORY_BYTES} >{group.folder}/memory.max")
    before = counts(machine)["began"]
    with working_in(group, "reclaimed", FITS) as one:
        one.wait_rounds(EVERY)
        swapped = int(group.read("memory.swap.current"))
        events = dict(line.split() for line in group.read("memory.events").splitlines())
        if not swapped or int(events["oom_kill"]):
            raise BrokenError("promises-broken", f"{swapped} bytes are swapped out, {events}")
        assert counts(machine)["began"] > before + FITS // 2, "DRAM had few of its pages"
        cut_and_resume(machine)
        goes_on(one, EVERY)
    _wait_pages(group, 0, 0)
    group.end()
    sh(machine, f"swapoff {SWAP}; echo always >{HUGE_PAGES}")


def _wait_pages(group: Group, least: int, most: int) -> None:
    def settled() -> bool:
        return least <= group.pages <= most

    wait_until(settled, f"{group.folder} to have {least} to {most} pages", SETTLE_LIMIT_S)


CHECKS = (
    limit_is_kept,
    lowered_limit_moves_pages_down,
    limit_counts_those_below,
    reclaim_takes_pages_of_dram,
)

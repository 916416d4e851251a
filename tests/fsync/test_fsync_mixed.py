# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: fsync ends in memory also where DRAM caches NVRAM. DRAM is gone after a power failure, and
what was acknowledged is not.

Method: as test_fsync_memory.py, on a machine whose DRAM has copies of the files' hot pages, beside
programs whose own pages are there (tests/mixed). The negative proof: a kernel that leaves a copy
mapped when its page changes, so that a program stores to the page and reads the copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed import fsync_guest, mixed_guest
from lab.testbed.fsync_checks import (
    PRELUDE,
    Check,
    appended_pages_are_found,
    expect,
    mapped_stores_are_found,
    replay,
    synced_pages_are_found,
    what_all_have_synced_stays,
)
from lab.testbed.fsync_guest import HOLD_UP, LATE, REGISTRY, lose_power, witness
from lab.testbed.machines import make_config
from lab.testbed.mixed_checks import CACHE_BYTES, FITS, cut_and_resume, goes_on
from lab.testbed.mixed_guest import FilePages, WorkingSet, mixed_config, wait_count
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.verdict import BrokenError
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

CHECKS = (
    synced_pages_are_found,
    appended_pages_are_found,
    mapped_stores_are_found,
    what_all_have_synced_stays,
)
STEPS = 300
FILE_PAGES = FITS // 4
HOT_PAGES = 64
# Its pages are read until DRAM has copies, through a mapping; then they change, and are synced.
HOT = f"""{PRELUDE}
import time
count = {HOT_PAGES} * 4096
put(b"a", 0, count); os.fsync(fd)
os.sync()  # a page that no disk has gets no copy
reading = os.open(path, os.O_RDONLY)  # no mapping of what may be written gets copies
hot = mmap.mmap(reading, count, mmap.MAP_SHARED, mmap.PROT_READ)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    assert hot.find(b"b") < 0
m = mmap.mmap(reading, count, mmap.MAP_SHARED, mmap.PROT_READ)  # of what is hot by now
assert m[:] == b"a" * count
put(b"b", 0, count); os.fsync(fd)
assert m[:] == b"b" * count, "the mapping has what the file had"
put(b"c", 0, 4096); os.fdatasync(fd)
assert m[:4096] == b"c" * 4096, "the mapping has what the file had"
"""
HOT_S = 4.0  # of the guest, some scans


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """Booted, with both in force, and a kernel with planted bugs, none of which is on."""
    kernel: Path = need(Kernel("mutants")).bz_image
    words = f"{REGISTRY} {HOLD_UP} {LATE}"
    config = mixed_config(
        make_config(machine_name("fsync-mixed"), 2, None, kernel), CACHE_BYTES, words
    )
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        fsync_guest.wait_up(made)
        fsync_guest.install(made)
        mixed_guest.install(made, mixed_guest.PROGRAMS)
        sh(made, "sync")
        yield made


def both_are_in_force(machine: Machine) -> None:
    assert (fsync_guest.state(machine), mixed_guest.state(machine)) == ("memory", "on")


@pytest.mark.in_turn
@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_rule_holds_where_dram_caches(machine: Machine, check: Check) -> None:
    both_are_in_force(machine)
    check(machine, f"/root/{check.__name__}")
    both_are_in_force(machine)
    assert not kernel_complaints(machine)


def hot_pages_change(machine: Machine, path: str) -> None:
    before = mixed_guest.counts(machine)["file_changed"]
    done = machine.guest.run(["python3", "-c", HOT, path, str(HOT_S)], check=False)
    if not done.ok:
        raise BrokenError("promises-broken", done.stderr)
    assert mixed_guest.counts(machine)["file_changed"] >= before + HOT_PAGES // 2


@pytest.mark.in_turn
def test_pages_with_copies_in_dram_are_registered_as_they_are(machine: Machine) -> None:
    path = "/root/hot"
    hot_pages_change(machine, path)
    lose_power(machine)
    replay(machine)
    expect(machine, path, f"c4096 b{(HOT_PAGES - 1) * 4096}")


@pytest.mark.in_turn
def test_copy_that_stays_mapped_is_found(machine: Machine) -> None:
    plant(machine, "dram-map-written")
    with must_be_found("dram-map-written"):
        try:
            hot_pages_change(machine, "/root/hot-planted")
        finally:
            lose_power(machine)
            replay(machine)
            plant(machine, NONE)


@pytest.mark.in_turn
def test_both_hold_over_a_stop_and_over_a_failure_without_one(machine: Machine) -> None:
    files = FilePages.start(machine, "both-files", FILE_PAGES)
    memory = WorkingSet.start(machine, "both-memory", 3 * FITS, FITS)
    with witness(machine, "/root/both", seed="both", sweeps=True) as seen:
        wait_count(machine, "file_used", 1)
        seen.wait(STEPS)
        cut_and_resume(machine)
        for one in (files, memory):
            goes_on(one, 2)
        seen.wait(STEPS)
        both_are_in_force(machine)
        lose_power(machine)
    replay(machine)
    assert seen.check() == []
    both_are_in_force(machine)
    assert not kernel_complaints(machine)

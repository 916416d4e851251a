# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: `rem bench rfa` measures what fsync in memory gains, on a disk that takes its time.

Method: its machine, on DRAM's timing, with the shortest of its programs. The disk's answers are
timed by the guest's clock, which follows the model, so no host is too slow. Negative proofs: with
it off there is no gain, and a run that did not take its way is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.bench import rfa_fsync as fsync
from lab.bench.rfa_fsync import EATMYDATA, MEMORY, OFF, PLP, SSD
from lab.errors import RemError
from lab.machine import Machine
from lab.testbed.fsync_guest import SYSFS
from lab.testbed.pm_guest import kernel_complaints, sh

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

PROGRAM = fsync.PROGRAMS["sqlite_wal"]
SECONDS = 1
# Ten reads of 4 KiB past the page cache, and ten flushes: the device is mounted.
TIMED = """
import mmap, os, time
fd = os.open("/dev/rem_disk", os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
def took(call):
    begin_ns = time.monotonic_ns()
    for n in range(10):
        call()
    return (time.monotonic_ns() - begin_ns) // 10
print(took(lambda: os.preadv(fd, [page], 0)), took(lambda: os.fsync(fd)))
"""
CALL_NS = 100_000  # of a call, its interrupt, and Python around it; none is free


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with fsync.rig(fsync.Plan(), "dram") as made:
        yield made


def rate(machine: Machine, way: str) -> fsync.Run:
    return fsync.measure_way(machine, PROGRAM, SSD, way, SECONDS)


@pytest.mark.parametrize("disk", [SSD, PLP])
def test_disk_takes_the_time_of_the_table(machine: Machine, disk: str) -> None:
    numbers = fsync.disk_words(disk)
    fsync.set_disk(machine, disk)
    sh(machine, "sync")
    read_ns, flush_ns = map(int, sh(machine, f"python3 -c '{TIMED}'").stdout.split())
    assert numbers["read_ns"] <= read_ns < numbers["read_ns"] + CALL_NS
    assert numbers["flush_ns"] <= flush_ns < numbers["flush_ns"] + CALL_NS


def test_gain_is_there_with_it_and_not_without(machine: Machine) -> None:
    off, memory, most = (rate(machine, way) for way in (OFF, MEMORY, EATMYDATA))
    for way, run in ((OFF, off), (MEMORY, memory), (EATMYDATA, most)):
        fsync.check_way(PROGRAM.name, way, run, off)
    assert memory.rate > 2 * off.rate and most.rate > 2 * off.rate
    again = rate(machine, OFF)
    assert 0.8 < again.rate / off.rate < 1.25
    with pytest.raises(RemError, match="no fsync ended in memory"):
        fsync.check_way(PROGRAM.name, MEMORY, again, off)
    with pytest.raises(RemError, match="is it loaded"):
        fsync.check_way(PROGRAM.name, EATMYDATA, again, off)


def test_excluded_file_system_gives_no_result(machine: Machine) -> None:
    device = sh(machine, "cat /sys/block/dm-0/dev").stdout.strip()
    sh(machine, f"echo +{device} >{SYSFS}/excluded")
    try:
        run = rate(machine, MEMORY)
    finally:
        sh(machine, f"echo -{device} >{SYSFS}/excluded")
    with pytest.raises(RemError, match="no fsync ended in memory"):
        fsync.check_way(PROGRAM.name, MEMORY, run, None)


def check_stops(machine: Machine) -> None:
    stops = fsync.measure_stops(machine, 2)
    assert 0 < stops.longest_ns <= stops.bound_ns <= stops.hold_up_ns
    assert not kernel_complaints(machine)


def test_stops_under_the_load_fit_the_supply(machine: Machine) -> None:
    check_stops(machine)


@pytest.mark.parametrize("memory", ["optane", "ocpmem"])
def test_stops_fit_with_each_memory(memory: str) -> None:
    """Lines of the caches wait for room in an Optane-like DIMM, or for OC-PMEM's flush port."""
    with fsync.rig(fsync.Plan(), memory) as machine:
        check_stops(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a Stop by drivers ends although files are written back meanwhile, and so does a write that
came when the disk was suspended already.

Method: a file that is written again and again leaves dirty pages when its writer is frozen.
Writeback is not frozen, and runs on a CPU that the Stop takes offline: its queue of the disk then
has requests that nobody dispatches before Go. Negative proof: a planted bug, by which the CPU waits
for them as in the kernel without our patch (kernel/patches/0031).
"""

from __future__ import annotations

import pytest

from lab.machine import Machine
from lab.machine.cut_plan import CutPlan
from lab.setup.kernel import MUTANTS
from lab.setup.products import Kernel, need
from lab.verdict import BrokenError
from tests.support.claims import GO_LIMIT_S, booted
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

CPUS = 2
STOPS = 5
# Of the host's time: a Stop that ends takes a second.
HOLD_UP_NS = 20_000_000_000
# On CPU 1 and all the time; a page is old enough at once.
WRITEBACK = """
echo 2 >/sys/devices/virtual/workqueue/writeback/cpumask
cd /proc/sys/vm && echo 1 >dirty_writeback_centisecs && echo 1 >dirty_expire_centisecs
"""
WRITER = """
setsid sh -c 'while :; do
  dd if=/dev/zero of=/root/dirty bs=1M count=64 conv=notrunc
done' >/dev/null 2>&1 </dev/null &
sleep 2
"""


def check_stops_end(machine: Machine, stops: int) -> None:
    """Inner check: each Stop ends, and after Go the file is written on."""
    machine.run_in_guest(WRITEBACK + WRITER)
    for _ in range(stops):
        machine.guest.close()
        if not machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS)).stopped:
            raise BrokenError("stop-hangs", "a CPU waits for requests of the suspended disk")
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        machine.run_in_guest("sync /root/dirty", limit_s=GO_LIMIT_S)


@pytest.mark.in_turn
def test_stop_by_drivers_ends_while_files_are_written_back() -> None:
    with booted("suspended", CPUS, "dpm") as machine:
        check_stops_end(machine, STOPS)


@pytest.mark.in_turn
def test_cpu_that_waits_for_a_suspended_disk_is_found() -> None:
    kernel = need(Kernel(MUTANTS)).bz_image
    with (
        booted("leaves-late", CPUS, "dpm", kernel, cmdline_extra="remanence.mutant=leaves-late")
        as machine,
        must_be_found("leaves-late"),
    ):  # fmt: skip
        check_stops_end(machine, STOPS)

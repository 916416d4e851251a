# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a Stop by drivers ends although files are written back meanwhile, and so does a write that
came when the disk was suspended already.

Method: small files are written all the time, and written back a second later. So a second's files
are left when their writer is frozen. Writeback is not frozen, and runs on a CPU that the Stop takes
offline: its queue of the disk then has requests that nobody dispatches before Go. Negative proof: a
planted bug, by which the CPU waits for them as without our patch (kernel/patches/0031).
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

# CPU 1 is the last to go: the more there are, the longer its queue is there.
CPUS = 8
STOPS = 5
PROOF_STOPS = 20  # at most: with the bug hardly one of them ends
# Of the host's time: a Stop that ends takes a second.
HOLD_UP_NS = 20_000_000_000
FILES = "/root/written"
# On CPU 1; every 10 ms, of what is a second old.
WRITEBACK = """
echo 2 >/sys/devices/virtual/workqueue/writeback/cpumask
cd /proc/sys/vm && echo 1 >dirty_writeback_centisecs && echo 100 >dirty_expire_centisecs
"""
WRITER = f"""
mkdir {FILES} && cd {FILES}
setsid sh -c 'while :; do n=$(((n + 1) % 2000)); echo $n 1<>$n; done' >/dev/null 2>&1 </dev/null &
sleep 3
"""


def check_stops_end(machine: Machine, stops: int) -> None:
    """Inner check: each Stop ends, and after Go files are written back again."""
    machine.run_in_guest(WRITEBACK + WRITER)
    for _ in range(stops):
        machine.guest.close()
        if not machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS)).stopped:
            raise BrokenError("stop-hangs", "a CPU waits for requests of the suspended disk")
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        machine.run_in_guest(f"sync -f {FILES}", limit_s=GO_LIMIT_S)


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
        check_stops_end(machine, PROOF_STOPS)

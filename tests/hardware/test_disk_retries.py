# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a read that is in flight at an NVMe disk when the power fails is issued again after Go,
also a read-ahead, which drivers do not try again after an error.

Method: QEMU lets the disk answer one read a second, so a program that reads it waits for one when
the power is cut. Negative proof: a planted bug.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

READ_BYTES = 4 << 20
IN_FLIGHT_LIMIT_S = 30

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


def answer_slowly(it: Bed) -> None:
    """Until the power is cut."""
    assert it.machine.qemu is not None
    qmp = it.machine.qemu.qmp
    disk = next(each["qdev"] for each in qmp.execute("query-block") if each.get("qdev"))
    no_limit: dict[str, Any] = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops", "iops_wr"), 0)
    qmp.execute("block_set_io_throttle", id=disk, iops_rd=1, **no_limit)


def check_reads_are_issued_again(it: Bed) -> None:
    """Inner check: the program continues, and the kernel has met no error."""
    size = int(it.machine.run_in_guest("blockdev --getsize64 /dev/nvme0n1").stdout)
    skip = size // READ_BYTES - 2  # nobody has read there
    answer_slowly(it)
    it.machine.run_in_guest(
        f"(dd if=/dev/nvme0n1 of=/dev/null bs={READ_BYTES} skip={skip} count=1 2>/root/dd"
        " && echo whole > /root/read) </dev/null >/dev/null 2>&1 &"
        f" for i in $(seq {IN_FLIGHT_LIMIT_S}0); do"
        " read reads writes < /sys/block/nvme0n1/inflight;"
        " [ $reads = 0 ] || exit 0; sleep 0.1; done; exit 1"
    )
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.resume()
    it.machine.run_in_guest(
        f"for i in $(seq {IN_FLIGHT_LIMIT_S}0); do"
        " [ -s /root/read ] && exit 0; sleep 0.1; done; cat /root/dd; exit 1"
    )
    lines = kernel_warnings(it.machine.console.text() if it.machine.console else "")
    if lines:
        raise BrokenError("kernel-warns", lines[0])


@pytest.mark.in_turn
def test_reads_in_flight_are_issued_again() -> None:
    with booted_bed("reads", disk="nvme") as it:
        check_reads_are_issued_again(it)


@pytest.mark.in_turn
def test_read_ahead_that_fails_at_a_cut_is_found() -> None:
    with booted_bed("reads-bug", disk="nvme", mutants=True) as it:
        plant(it.machine, "fail-read-ahead")
        with must_be_found("fail-read-ahead"):
            check_reads_are_issued_again(it)

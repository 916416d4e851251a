# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One power failure that a guest must not notice."""

from __future__ import annotations

from lab.machine import Machine
from lab.record.boot_note import BootNote
from lab.testbed.flushed import check_only_dead_stacks_differ
from lab.testbed.no_stop import WatchedClock, why

GO_LIMIT_S = 120.0
SLOWER = 10  # with modelled caches; no limit here is a measurement


def cut_and_resume(machine: Machine, rtc_offset_s: int = 0) -> BootNote:
    """Stop and Go. AssertionError with the reason if there is no Stop.

    BrokenError, with modelled caches, if a line is lost that something could still read.
    """
    clock = WatchedClock(machine)
    record = machine.cut(clock=clock)
    assert record.stopped, why(machine, record, clock)
    assert record.gone, f"QEMU {record.qemu_pid} still runs"
    if machine.config.caches is not None:
        check_only_dead_stacks_differ(machine)
    machine.resume(rtc_offset_s=rtc_offset_s)
    return machine.wait_resumed(GO_LIMIT_S * (SLOWER if machine.config.caches else 1))

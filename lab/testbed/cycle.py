# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A power failure that a guest must not notice."""

from __future__ import annotations

from dataclasses import replace

from lab.machine import Machine
from lab.machine.cut_points import attach_cut_points
from lab.record.boot_note import BootNote
from lab.testbed.flushed import check_only_dead_stacks_differ
from lab.testbed.machines import with_caches
from lab.testbed.no_stop import WatchedClock, why

GO_LIMIT_S = 120.0
SLOWER = 10  # with modelled caches; no limit here is a measurement


def stop_for_caches(machine: Machine, profile: str, hold_up_ns: int | None = None) -> None:
    """Stop it; from its next resume on it has volatile caches. Booting with them takes minutes."""
    machine.guest.close()
    assert machine.cut().stopped
    config = with_caches(machine.config, profile)
    machine.config = replace(config, hold_up_ns=hold_up_ns or config.hold_up_ns)
    attach_cut_points(machine)


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

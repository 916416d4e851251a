# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: in Go the threads of a core load microcode one after the other, since one that executes
something disturbs another that loads; also with a first thread that is offline.

Method: a machine whose cores have two threads. Go's events record when each CPU has loaded; in a
kernel with planted bugs the first thread of each core takes long for that, so that its sibling
would be the first if it did not wait. tests/unit/test_kernel_decisions.py has the order for other
machines. QEMU has no microcode that could be disturbed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

TOPOLOGY = "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@contextmanager
def machine(purpose: str, mutants: bool = False) -> Iterator[Bed]:
    with booted_bed(purpose, mutants=mutants, cpus=4, threads=2) as it:
        assert it.machine.run_in_guest(f"cat {TOPOLOGY}").stdout.strip() == "2-3"
        yield it


def order_of_go(it: Bed) -> list[int]:
    """The other CPUs, as they came back after a cut."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    sequence = it.resume().sequence
    assert it.kept()
    (slot,) = (slot for slot in it.record().slots if slot.timeline_sequence == sequence)
    events = [event for event in slot.timeline if event.type == "GO_CPU"]
    return [event.value for event in sorted(events, key=lambda event: event.tsc)]


def check_threads_wait(it: Bed) -> None:
    """Inner check."""
    order = order_of_go(it)
    assert sorted(order) == [1, 2, 3]
    if order.index(3) < order.index(2):
        raise BrokenError("threads-together", f"CPUs came back in the order {order}")


@pytest.mark.in_turn
def test_threads_of_a_core_come_back_one_after_the_other() -> None:
    with machine("threads") as it:
        check_threads_wait(it)
        it.machine.run_in_guest("echo 0 > /sys/devices/system/cpu/cpu2/online")
        assert sorted(order_of_go(it)) == [1, 3]
        it.machine.run_in_guest("echo 1 > /sys/devices/system/cpu/cpu2/online")
        check_threads_wait(it)
        assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
def test_threads_that_start_together_are_found() -> None:
    with machine("threads-bug", mutants=True) as it:
        plant(it.machine, "slow-microcode")
        check_threads_wait(it)
        plant(it.machine, "threads-together")
        with must_be_found("threads-together"):
            check_threads_wait(it)

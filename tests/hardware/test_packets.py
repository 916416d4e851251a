# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 5): a Stop waits for a few packets at most, however many have arrived. A CPU
that handles packets lets no thread run before the round is over, the one that parks it included.

Method: the host sends more packets than the guest can handle, so that each Stop begins in the
middle of a round. Time is counted instructions, so the host's speed does not enter. What
`rem bench stop-go` requires of a Stop is required here, too. The negative proof, on the same
machine: rounds as the network stack makes them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lab import run
from lab.addresses import GUEST_ADDRESS
from lab.bench.stop_go import STOP_MAX_NS
from lab.machine import Machine
from lab.machine.cut_points import attach_cut_points
from lab.testbed.machines import make_config, with_cut_points
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, cut_and_resume, machine_name, warnings
from tests.support.proofs import must_be_found
from tests.support.trials import parts

CPUS = 1
# Of a Stop at a random moment of a round one in five would be short.
STOPS = 8
FLOOD_S = 1.0
RECEIVED = "/sys/class/net/eth0/statistics/rx_packets"
RECEIVED_MIN = 2000  # in all Stops; without the flood there are some hundreds
# No program listens at that port. A burst each 2 ms is five times what the guest can handle.
FLOOD = f"""
import socket, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for _ in range(100):
        out.sendto(bytes(64), ("{GUEST_ADDRESS}", 9))
    time.sleep(0.002)
"""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@contextmanager
def flood(machine: Machine) -> Iterator[None]:
    child = run.spawn([*machine.network.exec_prefix(), sys.executable, "-c", FLOOD])
    try:
        time.sleep(FLOOD_S)
        assert child.poll() is None, "the flood has ended"
        yield
    finally:
        run.end(child)


@contextmanager
def counted(purpose: str) -> Iterator[Machine]:
    """A machine whose time is counted instructions, with a kernel of the planted bugs."""
    kernel = parts(mutants=True).kernel
    config = make_config(machine_name(purpose), CPUS, "fast", kernel)
    config = with_cut_points(replace(config, icount=True))
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


def received(machine: Machine) -> int:
    return int(machine.run_in_guest(f"cat {RECEIVED}").stdout)


def check_packets_delay_no_stop(machine: Machine) -> list[int]:
    """Inner check: how long Stops took, in a flood of packets."""
    before, taken_ns = received(machine), []
    for _ in range(STOPS):
        machine.guest.close()
        with flood(machine):
            record = machine.cut()
        assert record.stopped_after_ns is not None, "no Stop within the hold-up"
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        taken_ns.append(record.stopped_after_ns)
        if record.stopped_after_ns > STOP_MAX_NS:
            raise BrokenError("over-budget", f"Stops took {taken_ns} ns")
    assert received(machine) - before > RECEIVED_MIN
    return taken_ns


def test_packets_that_delay_a_stop_are_found() -> None:
    with counted("packets") as machine:
        cut_and_resume(machine)
        print(f"Stops took {check_packets_delay_no_stop(machine)} ns")
        assert warnings(machine) == []
        plant(machine, "large-batches")
        with must_be_found("large-batches"):
            check_packets_delay_no_stop(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 5): a Stop waits for a few packets at most, however many have arrived. A CPU
that handles packets lets no thread run before the round is over, the one that parks it included.

Method: the host sends packets without a pause, so that Stops begin in the middle of a round; the
kernel counts the rounds that end early. Time is counted instructions. What `rem bench stop-go`
requires of a Stop is required here, too. How many packets are there when it begins is up to the
host: with rounds as the network stack makes them, the negative proof, about each third Stop takes
too long. So there are as many as it takes, up to a limit.
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
from lab.bench.loads import make_load
from lab.bench.stop_go import STOP_MAX_NS
from lab.machine import Machine
from lab.machine.cut_points import attach_cut_points
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config, with_cut_points
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, machine_name, warnings
from tests.support.proofs import must_be_found
from tests.support.trials import parts

CPUS = 1
STOPS = 8
STOPS_MAX = 40  # of the planted bug
# The guest looks for packets after a millisecond, in which many arrive.
GATHER = (
    "cd /sys/class/net/eth0 && echo 1 > napi_defer_hard_irqs && echo 1000000 > gro_flush_timeout"
)
SOFTNET = "/proc/net/softnet_stat"
ENDED_EARLY = 2  # its word, for each CPU: rounds that ended with packets left
FLOOD_S = 1.0
# No program listens at that port. A burst each 2 ms is more than the guest can handle.
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
        machine.run_in_guest(GATHER)
        with make_load("idle", machine):
            yield machine


def ended_early(machine: Machine) -> int:
    return int(machine.run_in_guest(f"cat {SOFTNET}").stdout.split()[ENDED_EARLY], 16)


def check_packets_delay_no_stop(machine: Machine, stops: int) -> None:
    """Inner check: no Stop takes longer than is required, in a flood of packets."""
    taken_ns = []
    for _ in range(stops):
        machine.guest.close()
        with flood(machine):
            record = machine.cut()
        assert record.stopped_after_ns is not None, "no Stop within the hold-up"
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        taken_ns.append(record.stopped_after_ns)
        if record.stopped_after_ns > STOP_MAX_NS:
            raise BrokenError("over-budget", f"Stops took {taken_ns} ns")


def test_packets_that_delay_a_stop_are_found() -> None:
    with counted("packets") as machine:
        cut_and_resume(machine)
        before = ended_early(machine)
        check_packets_delay_no_stop(machine, STOPS)
        assert ended_early(machine) > before, "no Stop has met a round"
        assert warnings(machine) == []
        plant(machine, "large-batches")
        with must_be_found("large-batches"):
            check_packets_delay_no_stop(machine, STOPS_MAX)

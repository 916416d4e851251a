# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine of RISC-V whose devices have wires and no messages, and whose harts have a bit
for each other's interrupts, keeps the same promises: power failures under load lose nothing, by the
bounded path and where drivers stop the machine.

Method: as tests/riscv/test_riscv_cuts.py, with the older interrupt controller (PLIC). An interrupt
is lost when it comes in a Stop: a disk completes a write, or a hart wakes another one. A write that
waits for its disk before the next one begins, and programs that wake each other, find that.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import HangError
from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.riscv.harts import CACHES, booted_riscv, check_media_is_whole
from tests.riscv.test_riscv_planted import HOLD_UP_NS
from tests.support.claims import GO_LIMIT_S
from tests.support.proofs import must_be_found
from tests.test_claims_cuts import CUTS, CUTS_OF_FEW_CPUS, play

CUTS_OF_DRIVERS = 2
HARTS = 2
# A lost interrupt has to meet a Stop.
CUTS_UNTIL_FOUND = 20
PROGRESS_LIMIT_S = 30.0
WIRES: dict[str, Any] = {"interrupts": "plic"}
# Each counts what it has done: a write that goes to the disk before the next one, and two programs
# that wake each other on two harts.
WORK = """cd /root
cat > work.py <<'EOF'
import os, sys
def disk():
    fd = os.open("/root/work.disk", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
    while True:
        os.pwrite(fd, os.urandom(4096), 0)
        yield
def wake():
    there, back = os.pipe(), os.pipe()
    if not os.fork():
        os.sched_setaffinity(0, {1})
        while os.read(there[0], 1):
            os.write(back[1], b"x")
    os.sched_setaffinity(0, {0})
    while True:
        os.write(there[1], b"x")
        os.read(back[0], 1)
        yield
name = sys.argv[1]
count = os.open("/dev/shm/count." + name, os.O_RDWR | os.O_CREAT)
for n, _ in enumerate({"disk": disk, "wake": wake}[name](), 1):
    os.pwrite(count, b"%020d" % n, 0)
EOF
for name in disk wake; do setsid python3 work.py $name </dev/null >work.$name 2>&1 & done
until [ -s /dev/shm/count.disk ] && [ -s /dev/shm/count.wake ]; do sleep 0.1; done"""
COUNTS = "cat /dev/shm/count.disk; echo; cat /dev/shm/count.wake"

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


def counts(machine: Machine) -> list[int]:
    answer = machine.run_in_guest(COUNTS, limit_s=PROGRESS_LIMIT_S).stdout.split()
    return [int(number) for number in answer]


def check_work_goes_on(machine: Machine) -> None:
    """Inner check: no wait is for an interrupt that was lost."""
    try:
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        before = counts(machine)
        machine.run_in_guest("sleep 1", limit_s=PROGRESS_LIMIT_S)
        after = counts(machine)
    except HangError as error:
        raise BrokenError("does-not-continue", error.message) from error
    if any(now <= then for then, now in zip(before, after, strict=True)):
        raise BrokenError("does-not-continue", f"writes and wakes: {before}, then {after}")


def cuts_while_programs_wait(machine: Machine, cuts: int, mutant: str = "") -> None:
    machine.run_in_guest(WORK, limit_s=PROGRESS_LIMIT_S)
    if mutant:
        plant(machine, mutant)
    for _ in range(cuts):
        machine.guest.close()
        record = machine.cut()
        if not record.stopped:
            raise BrokenError("stop-missed", f"no Stop began: {record}")
        check_work_goes_on(machine)


def test_devices_and_harts_have_no_messages() -> None:
    with booted_riscv("rv-plic", HARTS, **WIRES) as machine:
        shown = machine.run_in_guest("cat /proc/interrupts").stdout
        assert "SiFive PLIC" in shown
        assert "MSI" not in shown
        assert machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout == "fast\n"
        play(machine, CUTS_OF_FEW_CPUS)


@pytest.mark.soak
@pytest.mark.parametrize("harts", [1, 4, 8])
def test_25_cuts_in_a_row_lose_nothing_by_wires(harts: int) -> None:
    with booted_riscv("rv-plic", harts, **WIRES) as machine:
        play(machine, CUTS)


@pytest.mark.in_turn
@pytest.mark.parametrize("mode", ["dpm", "sng"])
def test_drivers_stop_and_go_by_wires(mode: StopModeName) -> None:
    with booted_riscv(f"rv-plic-{mode}", HARTS, stop_mode=mode, **WIRES) as machine:
        play(machine, CUTS_OF_DRIVERS)


@pytest.mark.soak
def test_volatile_caches_are_written_back_by_wires() -> None:
    with booted_riscv("rv-plic-caches", HARTS, CACHES, **WIRES) as machine:
        machine.guest.close()
        record = machine.cut()
        assert record.stopped, record
        check_media_is_whole(machine)
        machine.resume()
        assert machine.wait_resumed(GO_LIMIT_S * 10).resumed


@pytest.mark.in_turn
def test_waits_over_a_cut_end() -> None:
    with booted_riscv("rv-plic-waits", HARTS, mutants=True, **WIRES) as machine:
        cuts_while_programs_wait(machine, CUTS_UNTIL_FOUND)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param("plic-deaf", marks=pytest.mark.in_turn),
        pytest.param("plic-unrepeated", marks=pytest.mark.in_turn),
        pytest.param("ipi-unrepeated", marks=pytest.mark.in_turn),
    ],
)
def test_bug_of_wires_is_found(mutant: str) -> None:
    with (
        booted_riscv("rv-plic-bug", HARTS, mutants=True, hold_up_ns=HOLD_UP_NS, **WIRES) as machine,
        must_be_found(mutant),
    ):
        cuts_while_programs_wait(machine, CUTS_UNTIL_FOUND, mutant)

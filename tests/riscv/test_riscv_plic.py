# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine of RISC-V whose devices have wires and no messages, and whose harts have a bit
for each other's interrupts, keeps the same promises: power failures under load lose nothing, by the
bounded path and where drivers stop the machine, and no interrupt that comes in a Stop is missed.

Method: as tests/riscv/test_riscv_cuts.py, with the older interrupt controller (PLIC). That a device
is done, or a hart calls another one, while interrupts are off happens once in very many Stops. So
the debugger holds a Stop there, until a device that somebody waits for is done, and notes a call as
the kernel notes it. Nothing else uses that device, and no other call ends the wait.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from lab.errors import HangError
from lab.lost_lines.kernel import Symbols
from lab.machine import Machine, MachineState
from lab.machine.config import StopModeName
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.riscv.harts import CACHES, booted_riscv, check_stop_writes_back
from tests.riscv.test_riscv_planted import HOLD_UP_NS
from tests.support.claims import GO_LIMIT_S, warnings
from tests.support.gdb_remote import Gdb
from tests.support.proofs import must_be_found
from tests.test_claims_cuts import CUTS, CUTS_OF_FEW_CPUS, play

CUTS_OF_DRIVERS = 2
HARTS = 2
PROGRESS_LIMIT_S = 60.0
WIRES: dict[str, Any] = {"interrupts": "plic"}
PLACES = {**WIRES, "cmdline_extra": "nokaslr"}  # System.map has the kernel's
# Linux asks it for 64 bytes. So a request waits almost always.
SLOW_MS = 1000
SLOW_DEVICE = f"virtio-rng-pci,max-bytes=32,period={SLOW_MS}"
HELD_S = 3.0
# A program that reads from the device, and one that calls the other hart (membarrier(2) does, for a
# program there that has registered); each counts what it has done.
WORK = """cat > /root/work.py <<'EOF'
import ctypes, os, sys, time
MEMBARRIER, CALL, REGISTER = 283, 2, 4
libc = ctypes.CDLL(None)
def read():
    fd = os.open("/dev/hwrng", os.O_RDONLY)
    while True:
        os.read(fd, 1)
        yield
def call():
    if not os.fork():
        libc.syscall(MEMBARRIER, REGISTER, 0, 0)
        os.sched_setaffinity(0, {1})
        while True:
            pass
    os.sched_setaffinity(0, {0})
    while True:
        libc.syscall(MEMBARRIER, CALL, 0, 0)
        yield
        time.sleep(0.01)
name = sys.argv[1]
count = os.open("/dev/shm/count." + name, os.O_RDWR | os.O_CREAT)
for n, _ in enumerate({"read": read, "call": call}[name](), 1):
    os.pwrite(count, b"%020d" % n, 0)
EOF
for name in read call; do
  setsid python3 /root/work.py $name </dev/null >/root/work.$name 2>&1 &
done
until [ -s /dev/shm/count.read ] && [ -s /dev/shm/count.call ]; do sleep 0.1; done"""
COUNTS = "cat /dev/shm/count.read; echo; cat /dev/shm/count.call"
TO_SECOND = r"""for irq in $(sed -n 's/^ *\([0-9]*\):.*SiFive PLIC.*/\1/p' /proc/interrupts); do
  echo 1 >/proc/irq/$irq/smp_affinity_list; cat /proc/irq/$irq/effective_affinity_list
done | sort -u"""
# QEMU's virt: what is enabled for supervisor mode of hart 1, the controller's context 3.
PLIC_ENABLE_SECOND, PLIC_WORDS = 0x0C000000 + 0x2000 + 3 * 0x80, 3
HERE = struct.pack("<I", 0x6F)  # a jump to itself
RESCHEDULE, CALL_FUNCTION, IRQ_WORK = 1 << 0, 1 << 1, 1 << 4  # arch/riscv/kernel/smp.c

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
        # Each has to count twice: the first may have been on its way.
        wanted = " && ".join(
            f"[ $(cat /dev/shm/count.{name}) -gt {count + 1} ]"
            for name, count in zip(("read", "call"), before, strict=True)
        )
        machine.run_in_guest(f"until {wanted}; do sleep 0.1; done", limit_s=PROGRESS_LIMIT_S)
    except HangError as error:
        raise BrokenError("does-not-continue", error.message) from error
    # A hart that does not answer is reported, and the report makes it answer.
    if found := warnings(machine):
        raise BrokenError("does-not-continue", found[0])


def symbols(machine: Machine) -> Symbols:
    return Symbols(machine.config.kernel.with_name("System.map"))


def word_at(gdb: Gdb, address: int) -> int:
    return int.from_bytes(gdb.read(address, 8), "little")


def note_calls(gdb: Gdb, at: Symbols, hart: int) -> None:
    """As kernel/irq/ipi-mux.c does before it raises the hart's bit."""
    offset = word_at(gdb, at.linked("__per_cpu_offset") + 8 * hart)
    begin = (word_at(gdb, at.linked("ipi_mux_pcpu")) + offset) % (1 << 64)
    calls_at = begin + 4  # after what is enabled
    noted = int.from_bytes(gdb.read(calls_at, 4), "little")
    noted |= RESCHEDULE | CALL_FUNCTION | IRQ_WORK
    gdb.write(calls_at, noted.to_bytes(4, "little"))


def stop_while_interrupts_come(machine: Machine) -> None:
    """A power failure; held where all harts have their interrupts off and devices still work."""
    at = symbols(machine)
    place = at.linked("rem_devices_stop")
    machine.guest.close()
    with Gdb(machine) as gdb:
        machine.supply.set_power_ok(False)
        gdb.run_to(place)
        code = gdb.read(place, len(HERE))
        gdb.write(place, HERE)
        gdb.run_for(HELD_S)
        note_calls(gdb, at, hart=1)
        gdb.write(place, code)
    if machine.wait_off(HOLD_UP_NS / 1e9 * 2) is not MachineState.STOPPED:
        raise BrokenError("stop-missed", "the Stop did not end")


def stop_and_go_with_lost_interrupts(machine: Machine, mutant: str = "") -> None:
    machine.run_in_guest(WORK, limit_s=PROGRESS_LIMIT_S)
    if mutant:
        plant(machine, mutant)
    stop_while_interrupts_come(machine)
    check_work_goes_on(machine)


@pytest.mark.in_turn
def test_devices_and_harts_have_no_messages() -> None:
    with booted_riscv("rv-plic", HARTS, **WIRES) as machine:
        shown = machine.run_in_guest("cat /proc/interrupts").stdout
        assert "SiFive PLIC" in shown
        assert "MSI" not in shown
        assert machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout == "fast\n"
        play(machine, CUTS_OF_FEW_CPUS)


def go_with_slow_firmware(machine: Machine) -> None:
    """Power returns. Firmware disables the wires of the second hart when it starts it, after the
    first one has restored them."""
    place = symbols(machine).linked("rem_plic_go_cpu")
    machine.resume(paused=True)
    with Gdb(machine) as gdb:
        gdb.run_to(place)  # the first hart
        gdb.step()
        gdb.run_to(place)
        code = gdb.read(place, len(HERE))
        gdb.write(place, HERE)
        gdb.run_for(HELD_S)
        gdb.write(place, code)
        gdb.physical()
        for word in range(PLIC_WORDS):
            gdb.write(PLIC_ENABLE_SECOND + 4 * word, bytes(4))
    machine.wait_resumed(GO_LIMIT_S)


def check_wires_of_another_hart(machine: Machine, mutant: str = "") -> None:
    """Inner check: where all wires lead to the second hart, disk and network work after Go, and the
    next drop of PWR_OK is noticed."""
    assert machine.run_in_guest(TO_SECOND).stdout.split() == ["1"]
    if mutant:
        plant(machine, mutant)
    for number in range(CUTS_OF_DRIVERS):
        machine.guest.close()
        record = machine.cut()
        if not record.stopped:
            raise BrokenError("stop-missed", f"no Stop began: {record}")
        try:
            go_with_slow_firmware(machine)
            machine.run_in_guest(f"echo {number} >/root/x && sync", limit_s=PROGRESS_LIMIT_S)
        except HangError as error:
            raise BrokenError("does-not-continue", error.message) from error


@pytest.mark.parametrize("mode", ["fast", pytest.param("sng", marks=pytest.mark.in_turn)])
def test_wires_of_another_hart_are_enabled_after_go(mode: StopModeName) -> None:
    """Firmware disables the wires of a hart that it starts."""
    with booted_riscv("rv-plic-second", HARTS, stop_mode=mode, **PLACES) as machine:
        check_wires_of_another_hart(machine)


@pytest.mark.in_turn
def test_wires_that_stay_as_firmware_leaves_them_are_found() -> None:
    with (
        booted_riscv(
            "rv-plic-second", HARTS, mutants=True, hold_up_ns=HOLD_UP_NS, **PLACES
        ) as machine,
        must_be_found("plic-hart-forgets"),
    ):
        check_wires_of_another_hart(machine, "plic-hart-forgets")


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
        check_stop_writes_back(machine)


@pytest.mark.parametrize(
    "mutant",
    [
        "",
        pytest.param("plic-deaf", marks=pytest.mark.in_turn),
        pytest.param("plic-unrepeated", marks=pytest.mark.in_turn),
        pytest.param("isr-forgotten", marks=pytest.mark.in_turn),
        pytest.param("ipi-unrepeated", marks=pytest.mark.in_turn),
    ],
)
def test_bug_of_wires_is_found(mutant: str) -> None:
    """Without one nothing is found."""
    options = {**PLACES, "devices": (SLOW_DEVICE,)}
    with booted_riscv(
        "rv-plic-bug", HARTS, mutants=True, hold_up_ns=HOLD_UP_NS, **options
    ) as machine:
        if not mutant:
            stop_and_go_with_lost_interrupts(machine)
            return
        with must_be_found(mutant):
            stop_and_go_with_lost_interrupts(machine, mutant)

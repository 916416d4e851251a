# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Negative proofs for what is of RISC-V alone: a bug planted in each part is found, by the verdict
that it names.

Method: a kernel with all planted bugs; one is switched on, the power fails, and the inner checks of
the claims have to find it: media, the loader's reason, a program in the guest, the next drop of
PWR_OK. Without a bug all of them pass.
"""

from __future__ import annotations

import pytest

from lab.errors import HangError
from lab.machine import Machine
from lab.testbed.no_stop import consoles
from lab.testbed.planted import plant
from lab.verdict import BrokenError, cold_verdict
from tests.riscv.harts import BY_LINES, CACHES, booted_riscv, check_media_is_whole
from tests.support.claims import GO_LIMIT_S
from tests.support.proofs import must_be_found

HARTS = 2
GUEST_LIMIT_S = 60.0
LOST_LIMIT_S = 120.0
HOLD_UP_NS = 10_000_000_000
# A program on each hart reads the time, and wakes the other.
WORK = "for n in 1 2; do taskset $n sh -c 'sleep 0.2; date +%s' || exit 1; done"

# More than a hart's own caches hold, by the second one.
DIRTIED = "taskset 2 dd if=/dev/urandom of=/dev/shm/x bs=64k count=16 2>/dev/null"

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def stop(machine: Machine) -> None:
    machine.guest.close()
    record = machine.cut()
    if not record.stopped:
        raise BrokenError("stop-missed", f"no Stop began: {record}")


def go(machine: Machine) -> None:
    """Power returns, and the guest works."""
    machine.resume()
    machine.wait_resumed(GO_LIMIT_S)
    try:
        done = machine.run_in_guest(WORK, check=False, limit_s=GUEST_LIMIT_S)
    except HangError as error:
        raise BrokenError("does-not-continue", error.message) from error
    if done.returncode:
        raise BrokenError("does-not-continue", f"programs fail: {done.stderr}")


def play(machine: Machine) -> None:
    """Two power failures: the second shows that the first Go has armed the machine."""
    stop(machine)
    go(machine)
    stop(machine)


def test_kernel_without_a_bug_passes_on_riscv() -> None:
    with booted_riscv("rv-none", HARTS, mutants=True) as machine:
        play(machine)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param("hart-deaf", marks=pytest.mark.in_turn),
        pytest.param("forget-enable", marks=pytest.mark.in_turn),
        pytest.param("forget-wires", marks=pytest.mark.in_turn),
    ],
)
def test_bug_of_riscv_is_found_after_go(mutant: str) -> None:
    with booted_riscv("rv-planted", HARTS, mutants=True, hold_up_ns=HOLD_UP_NS) as machine:
        plant(machine, mutant)
        with must_be_found(mutant):
            play(machine)


@pytest.mark.in_turn
def test_interrupts_that_stay_off_are_found_after_go_of_drivers() -> None:
    with booted_riscv("rv-core", HARTS, mutants=True, stop_mode="dpm") as machine:
        plant(machine, "core-deaf")
        with must_be_found("core-deaf"):
            play(machine)


@pytest.mark.parametrize("mutant", ["", pytest.param("hart-leaves-dirty", marks=pytest.mark.soak)])
def test_unplugged_hart_has_written_back_its_caches(mutant: str) -> None:
    with booted_riscv("rv-unplug", HARTS, CACHES, mutants=True) as machine:
        if mutant:
            plant(machine, mutant)
        machine.run_in_guest(f"{DIRTIED}; echo 0 > /sys/devices/system/cpu/cpu1/online")
        stop(machine)
        if not mutant:
            check_media_is_whole(machine)
            return
        with must_be_found(mutant):
            check_media_is_whole(machine)


@pytest.mark.in_turn
def test_hart_that_never_starts_is_a_cold_boot_with_its_reason() -> None:
    with booted_riscv("rv-lost", HARTS, mutants=True) as machine:
        plant(machine, "hart-not-started")
        stop(machine)
        machine.resume()
        assert machine.wait_boot_note(LOST_LIMIT_S).resumed
        assert machine.console is not None
        machine.console.expect("remanence: armed, last boot: cpu-lost", LOST_LIMIT_S)
        with must_be_found("hart-not-started"):
            raise BrokenError(cold_verdict("COLD_CPU_LOST"), consoles(machine)[-200:])


@pytest.mark.parametrize(
    ("mutant", "model"),
    [
        ("hart-skip-flush", None),
        pytest.param("hart-skip-lines", BY_LINES, marks=pytest.mark.soak),
    ],
)
def test_flush_that_is_left_out_is_found_on_media(mutant: str, model: str | None) -> None:
    options = {} if model is None else {"cpu_model": model}
    with booted_riscv("rv-flush", HARTS, CACHES, mutants=True, **options) as machine:
        plant(machine, mutant)
        stop(machine)
        with must_be_found(mutant):
            check_media_is_whole(machine)

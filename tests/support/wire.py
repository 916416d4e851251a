# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Inner checks on the wire of PWR_OK, for tests on the product and for their negative proofs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import HangError
from lab.machine import Machine, MachineState
from lab.verdict import BrokenError, StuckError, after_go
from tests.support.gdb_remote import Gdb
from tests.support.trials import GO_LIMIT_S, STOP_LIMIT_S, Bed

QUIET_S = 0.5  # far more than any Stop takes, and than the loader needs to enter an image
POLL_S = 0.05
DELIVERY_LIMIT_S = 1.0
RESET_LIMIT_S = 30.0  # to the loader's consumed word, which takes a second


def check_break_is_no_drop(it: Bed) -> None:
    """A line break is received as a zero, which as a status would mean: no power."""
    assert it.machine.qemu is not None
    for _ in range(3):
        it.machine.qemu.qmp.execute("chardev-send-break", id="power")
        time.sleep(QUIET_S)
        if it.machine.state is not MachineState.RUNNING:
            raise BrokenError("does-not-continue", "a break on the wire stopped the machine")


def consumed(it: Bed) -> int:
    return it.record().consumed.sequence or 0


def newest(it: Bed) -> int:
    slot = it.record().newest
    assert slot is not None
    return slot.commit.sequence or 0


def set_power_ok(it: Bed, power_ok: bool) -> None:
    it.machine.supply.set_power_ok(power_ok)
    wait_delivered(it)


def wait_delivered(it: Bed) -> None:
    """Wait until the machine's UART has the supply's byte, or has had time for it: if another byte
    is still there, this one follows as soon as there is room."""
    wire = it.machine.supply.wire
    assert wire is not None
    end_s = time.monotonic() + DELIVERY_LIMIT_S
    while not wire.delivered() and time.monotonic() < end_s:
        time.sleep(0.005)


def check_drop_in_go_ends_in_a_stop(
    it: Bed, address: int, limit_s: float = STOP_LIMIT_S, entered: bool = True
) -> None:
    """A stopped machine: PWR_OK drops when Go reaches an address, and stays down."""
    image = newest(it)
    it.power_on_paused()
    with Gdb(it.machine) as gdb:
        gdb.run_to(address)
        assert consumed(it) == (image if entered else image - 1)
        set_power_ok(it, False)
    try:
        state = it.machine.wait_off(limit_s)
    except HangError as error:
        raise BrokenError("stop-missed", f"a drop during Go: {error.message}") from error
    assert state is MachineState.STOPPED, "Go did not end in a Stop"
    assert newest(it) == image + 1


def check_loader_waits_for_charge(it: Bed, charge: int, mutant: str | None = None) -> None:
    """A stopped machine: with so little charge the loader reports it, and consumes nothing."""
    before = consumed(it)
    it.machine.supply.charge = charge
    it.power_on(mutant=mutant)
    console = it.machine.console
    assert console is not None
    end_s = time.monotonic() + GO_LIMIT_S
    while consumed(it) == before and "GO: wait for charge" not in console.text():
        if time.monotonic() > end_s:
            raise HangError("the loader neither waits nor enters the image")
        time.sleep(POLL_S)
    time.sleep(QUIET_S)
    if consumed(it) != before:
        raise BrokenError("entered-without-charge", "the image was consumed without charge")


@contextmanager
def power_never_goes(machine: Machine) -> Iterator[None]:
    """Within, PWR_OK may drop and come back, and a committed Stop does not end QEMU."""
    supply = machine.supply
    machine.guest.close()
    supply.on_stopped = lambda: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        del supply.on_stopped


def check_power_that_returns_in_a_stop(it: Bed, address: int) -> None:
    """PWR_OK drops, and is back when Stop reaches an address where the wire's interrupt is still
    on: the kernel echoes that power is back, so the supply does not repeat it."""
    before = consumed(it)
    with power_never_goes(it.machine):
        with Gdb(it.machine) as gdb:
            set_power_ok(it, False)
            gdb.run_to(address)
            set_power_ok(it, True)
        _wait_entered(it, before)
        with after_go():
            it.machine.guest.wait_ssh(GO_LIMIT_S)


def _wait_entered(it: Bed, before: int) -> None:
    """Wait until the loader has consumed another image."""
    end_s = time.monotonic() + RESET_LIMIT_S
    while consumed(it) == before:
        if time.monotonic() > end_s:
            raise StuckError("the machine stays off although power is back")
        time.sleep(POLL_S)


def check_returning_power_ends_a_stop(it: Bed) -> None:
    """PWR_OK drops and comes back after the commit."""
    supply, resets = it.machine.supply, it.machine.resets
    wire = supply.wire
    assert wire is not None
    before = consumed(it)
    with power_never_goes(it.machine):
        supply.set_power_ok(False)
        assert wire.stopped.wait(STOP_LIMIT_S), "no Stop"
        time.sleep(QUIET_S)
        assert consumed(it) == before, "entered without power"
        supply.set_power_ok(True)
        _wait_entered(it, before)
        with after_go():
            it.machine.guest.wait_ssh(GO_LIMIT_S)
    assert it.machine.resets > resets
    assert it.kept()

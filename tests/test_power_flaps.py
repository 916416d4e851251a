# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: power may flap (invariant 9). A drop of PWR_OK while the loader polls leaves the image
unchanged; after a drop at any moment after consumption, Go is completed and Stop runs again, and
nothing is lost. The loader waits while there is too little charge for that, and reports it.

Method: QEMU's debugger stops the VM at an exact instruction of Go; there the supply changes its
status; then the VM continues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab import format as fmt
from lab.machine import MachineState
from lab.machine.console import kernel_warnings
from tests.support.gdb_remote import Gdb
from tests.support.trials import GO_LIMIT_S, STOP_LIMIT_S, Bed, bed, parts, symbols

DELIVERY_LIMIT_S = 1.0
WAITING_S = 0.5  # of guest time, in which nothing may happen

# In the order of Go: when the loader has read the wire for the last time, then after consumption;
# the last ones are in the thread that ends it.
BEFORE_CONSUMPTION = "consume"
MOMENTS = (
    BEFORE_CONSUMPTION,
    "image_enter",
    "rem_go_begin",
    "rem_cpus_start",
    "rem_devices_go",
    "rem_entropy_reseed",
    "rem_power_go",
    "rem_interrupts_repeat",
    "rem_go_finish",
    "rem_stop_end",
    "rem_record_prepare",
)

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with bed("flaps") as it:
        yield it


@pytest.fixture(scope="module")
def address() -> dict[str, int]:
    return symbols(parts())


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


def consumed(it: Bed) -> int:
    return it.record().consumed.sequence or 0


def newest(it: Bed) -> int:
    slot = it.record().newest
    assert slot is not None
    return slot.commit.sequence or 0


def check_guest(it: Bed) -> None:
    assert it.kept()
    it.machine.run_in_guest("echo 1 > /root/after && sync /root/after")
    assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_drop_during_go_ends_in_an_image(it: Bed, address: dict[str, int], moment: str) -> None:
    it.restore()
    image = newest(it)
    it.power_on_paused()
    with Gdb(it.machine) as gdb:
        gdb.run_to(address[moment])
        assert consumed(it) == (image if moment != BEFORE_CONSUMPTION else image - 1)
        set_power_ok(it, False)
    state = it.machine.wait_off(STOP_LIMIT_S)
    assert state is MachineState.STOPPED, "Go did not end in a Stop"
    assert newest(it) == image + 1
    assert kernel_warnings(it.machine.console.text()) == []
    assert it.resume().sequence == image + 1
    check_guest(it)


@pytest.mark.parametrize("moment", ["rem_go_begin", "rem_power_go"])
def test_drop_that_is_over_before_go_is_stops_nothing(
    it: Bed, address: dict[str, int], moment: str
) -> None:
    it.restore()
    image = newest(it)
    it.power_on_paused()
    with Gdb(it.machine) as gdb:
        gdb.run_to(address[moment])
        set_power_ok(it, False)
        set_power_ok(it, True)
    assert it.machine.wait_resumed(GO_LIMIT_S).sequence == image
    time.sleep(WAITING_S)
    assert it.machine.state is MachineState.RUNNING
    check_guest(it)
    it.machine.guest.close()
    assert it.machine.cut().stopped, "the next drop is not handled"


def drop_while_the_loader_polls(it: Bed) -> None:
    """It waits for charge; then there is charge, but no power. Its echo acknowledges that."""
    it.machine.supply.charge = fmt.Charge.STOP
    it.power_on()
    assert it.machine.console is not None
    it.machine.console.expect("GO: wait for charge", GO_LIMIT_S)
    it.machine.supply.set_power_ok(False)
    it.machine.supply.set_charge(fmt.Charge.FULL)
    wire = it.machine.supply.wire
    assert wire is not None
    assert wire.echoed.wait(GO_LIMIT_S)
    time.sleep(WAITING_S)


def test_drop_while_the_loader_polls_consumes_nothing(it: Bed) -> None:
    it.restore()
    before, image = consumed(it), newest(it)
    drop_while_the_loader_polls(it)
    assert consumed(it) == before
    it.off()  # the power fails
    assert consumed(it) == before
    assert it.resume().sequence == image
    check_guest(it)


def test_loader_continues_when_power_is_back(it: Bed) -> None:
    it.restore()
    before, image = consumed(it), newest(it)
    drop_while_the_loader_polls(it)
    assert consumed(it) == before
    it.machine.supply.set_power_ok(True)
    assert it.machine.wait_resumed(GO_LIMIT_S).sequence == image
    check_guest(it)


@pytest.mark.parametrize("charge", [fmt.Charge.NONE, fmt.Charge.STOP], ids=lambda c: c.name)
def test_loader_waits_for_charge_and_reports_it(it: Bed, charge: int) -> None:
    it.restore()
    before, image = consumed(it), newest(it)
    it.machine.supply.charge = charge
    it.power_on()
    assert it.machine.console is not None
    it.machine.console.expect("GO: wait for charge", GO_LIMIT_S)
    time.sleep(WAITING_S)
    assert consumed(it) == before
    it.machine.supply.set_charge(fmt.Charge.FLAP)
    note = it.machine.wait_resumed(GO_LIMIT_S)
    assert note.sequence == image
    assert (note.charge & fmt.CONST["REM_PWR_CHARGE_MASK"]) >> 1 == fmt.Charge.FLAP
    check_guest(it)

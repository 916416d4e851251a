# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: power may flap (invariant 9). A drop of PWR_OK while the loader polls leaves the image
unchanged; after a drop at any moment after consumption, Go is completed and Stop runs again, and
nothing is lost. That holds in the middle of a driver's restart of its device, too: the restart
begins again. Power that returns after a Stop ends it without a power cycle; a break on the wire is
no drop. The loader waits while there is too little charge for that, and reports it.

Method: QEMU's debugger stops the VM at an exact instruction of Go; there the supply changes its
status; then the VM continues. Negative proof: a planted bug.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab import format as fmt
from lab.errors import RemError
from lab.machine import MachineState
from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError
from tests.support.gdb_remote import Gdb
from tests.support.proofs import must_be_found
from tests.support.trials import GO_LIMIT_S, STOP_LIMIT_S, Bed, bed, parts, symbols
from tests.support.wire import (
    check_break_is_no_drop,
    check_drop_in_go_ends_in_a_stop,
    check_loader_waits_for_charge,
    check_power_that_returns_in_a_stop,
    check_returning_power_ends_a_stop,
    consumed,
    newest,
    set_power_ok,
)

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

# Steps of the drivers' restarts, which run after Go.
STEPS = (
    "nvme_init_identify",  # the controller is enabled, the driver is connecting
    "nvme_dev_disable",
    "nvme_enable_ctrl",
    "nvme_start_ctrl",  # the controller is live
    "nvme_set_queue_count",
    "nvme_unfreeze",  # requests of before the cut were issued again
    "e1000e_reset",
    "e1000e_down",
    "e1000e_up",
)
# The same, of a USB controller with a keyboard.
USB = ("qemu-xhci,id=usb,addr=6", "usb-kbd,bus=usb.0,port=1")
USB_STEPS = ("xhci_suspend", "xhci_reset", "xhci_mem_cleanup", "xhci_run", "hub_port_reset")
KEYBOARD_LIMIT_S = 20.0
FLAPS = 2
# Far more than a restart takes; a machine without its disk costs the test as much.
RESUME_LIMIT_S = 40.0
DISK_LIMIT_S = 20.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


def in_tiers(moments: tuple[str, ...]) -> list[Any]:
    """Parameters: each second moment for the full tier, the rest for soak."""
    marks: tuple[list[Any], ...] = (
        [],
        [pytest.mark.soak],
        [pytest.mark.in_turn],
        [pytest.mark.soak],
    )
    return [pytest.param(moment, marks=marks[n % 4]) for n, moment in enumerate(moments)]


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with bed("flaps") as it:
        yield it


@pytest.fixture(scope="module")
def address() -> dict[str, int]:
    return symbols(parts())


def check_guest(it: Bed) -> None:
    assert it.kept()
    it.machine.run_in_guest("echo 1 > /root/after && sync /root/after")
    assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.parametrize("moment", in_tiers(MOMENTS))
def test_drop_during_go_ends_in_an_image(it: Bed, address: dict[str, int], moment: str) -> None:
    it.restore()
    image = newest(it)
    check_drop_in_go_ends_in_a_stop(it, address[moment], entered=moment != BEFORE_CONSUMPTION)
    assert kernel_warnings(it.machine.console.text()) == []
    assert it.resume().sequence == image + 1
    check_guest(it)


@pytest.fixture(scope="module")
def restarting() -> Iterator[Bed]:
    """A machine whose disk and network device are restarted by their drivers."""
    with bed("restarts", disk="nvme", nic="e1000e") as it:
        yield it


def check_restart_begins_again(it: Bed, step: int, flaps: int = FLAPS) -> None:
    """Inner check: the power fails at this address of a restart, so often; then disk and network
    are there, and the machine is armed."""
    it.restore()
    for _ in range(flaps):
        image = newest(it)
        it.power_on_paused()
        with Gdb(it.machine) as gdb:
            gdb.run_to(step)
            set_power_ok(it, False)
        assert it.machine.wait_off(STOP_LIMIT_S) is MachineState.STOPPED
        assert newest(it) == image + 1
    it.resume(RESUME_LIMIT_S)
    try:
        it.machine.run_in_guest("echo 1 > /root/after && sync /root/after", limit_s=DISK_LIMIT_S)
    except RemError as error:
        raise BrokenError("does-not-continue", f"no disk after a flap: {error.message}") from error
    it.machine.guest.close()
    assert it.machine.cut().stopped, "the next drop is not handled"
    assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("step", STEPS)
def test_restart_that_a_drop_interrupts_begins_again(
    restarting: Bed, address: dict[str, int], step: str
) -> None:
    check_restart_begins_again(restarting, address[step])
    restarting.resume()
    check_guest(restarting)


@pytest.mark.in_turn("usb")
@pytest.mark.parametrize("step", USB_STEPS)
def test_usb_that_a_drop_interrupts_comes_back(step: str) -> None:
    """The keyboard may be another one for programs: the driver may have given its controller up,
    and is bound once more then."""
    address = symbols(parts(variant="devices-mutants"))[step]
    with bed("restarts-usb", variant="devices-mutants", devices=USB) as it:
        check_restart_begins_again(it, address, flaps=1)
        it.resume()
        found = "grep -c 'QEMU USB Keyboard' /proc/bus/input/devices; true"
        wait_until(
            lambda: it.machine.run_in_guest(found).stdout.strip() == "1",
            "the keyboard",
            KEYBOARD_LIMIT_S,
        )
        check_guest(it)


@pytest.mark.in_turn
def test_restart_that_goes_on_after_a_drop_is_found() -> None:
    mutant = {"mutants": True, "mutant": "restart-goes-on"}
    with (
        bed("restart-bug", disk="nvme", nic="e1000e", **mutant) as it,
        must_be_found("restart-goes-on"),
    ):
        check_restart_begins_again(it, symbols(parts(mutants=True))[STEPS[0]], flaps=1)


@pytest.mark.in_turn
def test_restart_that_does_not_begin_again_is_found() -> None:
    """By a driver's own callbacks, which the NVMe driver's restart does not use."""
    step = symbols(parts(mutants=True))["e1000e_reset"]
    with bed("restart-once", nic="e1000e", mutants=True) as it:
        check_restart_begins_again(it, step, flaps=1)
    with (
        bed("restart-once", nic="e1000e", mutants=True, mutant="restart-once") as it,
        must_be_found("restart-once"),
    ):
        check_restart_begins_again(it, step, flaps=1)


@pytest.mark.in_turn
def test_restart_that_has_begun_again_is_left_alone() -> None:
    """Who ends the waits of the old reset is late: the new one is connecting by then."""
    with bed("restart-late", disk="nvme", mutants=True, mutant="late-end-waits") as it:
        step = symbols(parts(mutants=True))["nvme_enable_ctrl"]
        check_restart_begins_again(it, step, flaps=1)
        it.restore()
        it.resume()
        plant(it.machine, "ends-new-life")
        it.machine.guest.close()
        assert it.machine.cut().stopped
        it.save()
        with must_be_found("ends-new-life"):
            check_restart_begins_again(it, step, flaps=1)


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


def test_break_on_the_wire_stops_nothing(it: Bed) -> None:
    it.restore()
    it.resume()
    check_break_is_no_drop(it)
    check_guest(it)


def test_power_that_returns_after_the_stop_ends_it(it: Bed) -> None:
    """Twice: the machine is armed again, and the next Stop ends in the same way."""
    it.restore()
    image = newest(it)
    it.resume()
    for number in (1, 2):
        check_returning_power_ends_a_stop(it)
        assert consumed(it) == image + number
    check_guest(it)


def test_power_that_returns_while_cpus_gather_ends_the_stop(
    it: Bed, address: dict[str, int]
) -> None:
    it.restore()
    it.resume()
    check_power_that_returns_in_a_stop(it, address["rem_park_cpu"])
    check_guest(it)


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
    image = newest(it)
    check_loader_waits_for_charge(it, charge)
    it.machine.supply.set_charge(fmt.Charge.FLAP)
    note = it.machine.wait_resumed(GO_LIMIT_S)
    assert note.sequence == image
    assert (note.charge & fmt.CONST["REM_PWR_CHARGE_MASK"]) >> 1 == fmt.Charge.FLAP
    check_guest(it)

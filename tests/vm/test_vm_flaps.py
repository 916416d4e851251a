# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Power that flaps: a guest goes on, wherever in a save or a return the power fails again.

Goal: `rem-vm` enters an image only with power and charge for another save; a drop before that
leaves the image as it is, and one after it is followed by a save. Method: a supply that drops
PWR_OK at several moments of a save and of a return; that comes without power, or with too little
charge. Negative proof: the same, where the supply does not tell, costs the image.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab.testbed.flapping import (
    RETURNS_S,
    flap_in_returns,
    flap_in_saves,
    return_without_charge,
)
from lab.testbed.vm_host import DEBIAN, VmHost
from lab.testbed.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
LONG_S = 2.0  # rem-vm waits for a supply that says nothing for half of it
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def host() -> Iterator[VmHost]:
    with VmHost("test-vm-flaps") as host:
        host.power_on()
        host.wait_up()
        yield host


def boot_of(host: VmHost) -> str:
    """Of the guest's kernel; the host may then be cut."""
    host.wait_up()
    boot = host.run_in_guest(BOOT_ID).stdout
    host.guest.close()
    return boot


def power_on(host: VmHost) -> str:
    return str(host.power_on()[DEBIAN]["reason"])


def is_admitted(host: VmHost) -> bool:
    host.wait_served()
    return bool(host.status()[DEBIAN]["persistent"])


def test_guest_goes_on_after_drops_within_a_save(host: VmHost) -> None:
    boot = boot_of(host)
    flap_in_saves(host)
    assert boot_of(host) == boot
    assert host.cut().stopped
    assert power_on(host) == "resume"
    assert boot_of(host) == boot


def test_guest_goes_on_after_power_failed_in_its_return(host: VmHost) -> None:
    boot = boot_of(host)
    assert host.cut().stopped
    saved = flap_in_returns(host)
    assert saved > 0, "no return was far enough that the guest was saved again"
    assert power_on(host) == "resume"
    assert boot_of(host) == boot


def test_image_waits_for_charge(host: VmHost) -> None:
    boot = boot_of(host)
    assert host.cut().stopped
    return_without_charge(host, LONG_S)
    assert power_on(host) == "resume"
    assert boot_of(host) == boot


@pytest.mark.in_turn
def test_guest_is_admitted_after_a_drop_in_its_return(host: VmHost) -> None:
    boot = boot_of(host)
    for return_s in RETURNS_S:
        assert host.cut().stopped
        host.begin_power_on()
        time.sleep(return_s)
        host.supply.set_power_ok(False)
        time.sleep(LONG_S)
        host.supply.set_power_ok(True)
        wait_until(lambda: is_admitted(host), "the guest is admitted", LIMIT_S)
        assert host.status()[DEBIAN]["reason"] == "resume", (
            return_s,
            host._log.read_text()[-1500:],
        )
    assert boot_of(host) == boot


@pytest.mark.in_turn
def test_return_whose_supply_does_not_tell_costs_the_image(host: VmHost) -> None:
    boot_of(host)
    assert host.cut().stopped
    host.start()
    time.sleep(LONG_S)
    host.kill()
    assert power_on(host) == "already-consumed"

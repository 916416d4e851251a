# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine whose kernel can ask its BMC is on the fast path, and over cuts in the middle of
requests the driver goes on.

Method: QEMU's BMC behind a KCS interface, which is reset in each cut as a BMC without standby power
is; ipmitool asks it without a pause. Negative proof: the same check is red once the driver is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.errors import HangError
from lab.machine import Machine
from lab.setup.products import Root, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config
from lab.testbed.waiting import wait_until
from tests.support.claims import BOOT_LIMIT_S, machine_name, warnings
from tests.support.ipmi_modules import put_ipmi

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]

BMC = ("ipmi-bmc-sim,id=bmc0", "isa-ipmi-kcs,bmc=bmc0")
MODE = "cat /sys/kernel/remanence/stop_mode"
CUTS = 5
MORE = 200  # requests; there are some thousands a second
LIMIT_S = 60.0
GONE_S = 5.0
# A line for each answer, to Get Device ID.
ANSWER = " 20 00 "
REQUESTS = """yes 'raw 6 1' | head -3000000 >/run/raw
setsid stdbuf -oL ipmitool exec /run/raw >/run/said 2>&1 </dev/null &"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    root = need(Root.having("ipmitool"))
    config = replace(make_config(machine_name("ipmi"), cpus=2), root=root, devices=BMC)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        made.wait_up(BOOT_LIMIT_S)
        put_ipmi(made)
        made.run_in_guest(REQUESTS)
        yield made


def answers(machine: Machine) -> int:
    counted = machine.run_in_guest(f"grep -c '^{ANSWER}' /run/said", check=False)
    return int(counted.stdout)


def check_goes_on(machine: Machine, limit_s: float = LIMIT_S) -> None:
    aim = answers(machine) + MORE
    wait_until(lambda: answers(machine) >= aim, "the BMC answers", limit_s)


def test_driver_of_ipmi_goes_on_after_cuts(machine: Machine) -> None:
    for _ in range(CUTS):
        check_goes_on(machine)
        assert machine.run_in_guest(MODE).stdout.strip() == "fast"
        cut_and_resume(machine)
    check_goes_on(machine)
    assert machine.run_in_guest(MODE).stdout.strip() == "fast"
    failed = machine.run_in_guest(f"grep -v '^{ANSWER}' /run/said", check=False).stdout
    assert len(failed.splitlines()) <= 2 * CUTS, failed
    assert warnings(machine) == []


def test_driver_that_is_gone_is_found(machine: Machine) -> None:
    """The negative proof."""
    check_goes_on(machine)
    path = "/sys/bus/platform/drivers/ipmi_si"
    machine.run_in_guest(f"for d in {path}/*:*; do echo ${{d##*/}} >{path}/unbind & done; sleep 1")
    with pytest.raises(HangError):
        check_goes_on(machine, GONE_S)

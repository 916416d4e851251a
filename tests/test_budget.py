# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 5): the machine reports at boot what its Stop takes and how long the supply
holds; if they do not fit it begins no Stop, and the next boot is cold with its reason.

Method: the same machine with two hold-ups. The negative proof is the short one: a supply that holds
less than the bound, and power that fails nevertheless.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.machine.cut_plan import CutPlan
from lab.testbed.machines import make_config
from tests.support.claims import BOOT_LIMIT_S, consoles, cut_and_resume, machine_name, warnings

SYSFS = "/sys/kernel/remanence"
TOO_SHORT_US = 100
LONG_US = 1_000_000
STOPS_MAX = 5
# Prints what it is when a change wakes it.
WAIT = (
    f'import os, select; f = os.open("{SYSFS}/flush_on_fail", os.O_RDONLY); os.read(f, 2);'
    ' print("waits", flush=True);'
    " p = select.poll(); p.register(f, select.POLLPRI); p.poll();"
    " print(os.pread(f, 2, 0).decode().strip())"
)
NO_STOP_NS = 300_000_000  # far more than any Stop takes

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def booted_with(hold_up_us: int, *more: str) -> Machine:
    config = make_config(machine_name(f"budget-{hold_up_us}"), stop_mode="fast")
    words = [config.cmdline_extra, f"remanence.hold_up_us={hold_up_us}", *more]
    config = replace(config, cmdline_extra=" ".join(words).strip())
    machine = Machine.create(config, destroy_on_exit=True)
    machine.boot()
    machine.wait_up(BOOT_LIMIT_S)
    return machine


def budget(machine: Machine) -> dict[str, int]:
    shown = machine.run_in_guest(f"cat {SYSFS}/budget").stdout
    return {name: int(value) for name, value in (line.split() for line in shown.splitlines())}


def flushes_on_fail(machine: Machine) -> bool:
    return machine.run_in_guest(f"cat {SYSFS}/flush_on_fail").stdout == "1\n"


def test_hold_up_that_is_long_enough_arms() -> None:
    with booted_with(LONG_US) as machine:
        report = budget(machine)
        assert report["hold_up_ns"] == LONG_US * 1000
        assert 0 < report["bound_ns"] < report["hold_up_ns"]
        assert machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip() == "armed"
        assert flushes_on_fail(machine)
        assert re.search(r"Stop takes at most \d+ us, the supply holds", consoles(machine))


def test_hold_up_that_is_too_short_begins_no_stop() -> None:
    with booted_with(TOO_SHORT_US) as machine:
        report = budget(machine)
        assert report["bound_ns"] > report["hold_up_ns"] == TOO_SHORT_US * 1000
        status = machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip()
        assert status == "refused: a Stop may outlast the hold-up"
        assert not flushes_on_fail(machine)
        assert "no Stop will begin" in consoles(machine)
        machine.guest.close()
        assert not machine.cut(CutPlan(hold_up_ns=NO_STOP_NS)).stopped
        machine.resume()
        note = machine.wait_boot_note(BOOT_LIMIT_S)
        assert note.reason == "COLD_NOT_COMMITTED"


def test_without_a_power_monitor_caches_are_not_promised() -> None:
    """Its ports are somebody else's, so a drop is not noticed. A planned Stop is possible."""
    with booted_with(LONG_US, "reserve=0x2f8,8") as machine:
        assert "remanence: no power monitor" in consoles(machine)
        assert machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip() == "armed"
        assert not flushes_on_fail(machine)


def test_stop_over_its_bound_disarms_until_acknowledged() -> None:
    """The bound is made wrong: it is computed without a section with preemption off and for the
    reference machine's clock, while this machine's time is the host's.
    """
    with booted_with(LONG_US, "remanence.preempt_off_us=0") as machine:
        assert flushes_on_fail(machine)
        machine.run_in_guest(f"python3 -c '{WAIT}' >/root/woken 2>&1 &")
        machine.run_in_guest("until grep waits /root/woken; do sleep 0.1; done")
        for _ in range(STOPS_MAX):
            cut_and_resume(machine)
            report = budget(machine)
            if report["exceeded"]:
                break
        assert report["last_ns"] > report["bound_ns"], "no Stop took longer than the bound"
        assert report["worst_ns"] >= report["last_ns"]
        status = machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip()
        assert status == "refused: a Stop outlasted its bound"
        assert not flushes_on_fail(machine)
        machine.run_in_guest("until grep -x 0 /root/woken; do sleep 0.1; done")
        refused = machine.run_in_guest(f"echo now > {SYSFS}/stop", check=False)
        assert "busy" in refused.stderr

        machine.run_in_guest(f"echo acknowledge > {SYSFS}/budget")
        report = budget(machine)
        assert not report["exceeded"]
        assert report["worst_ns"] > report["bound_ns"], "it was forgotten with the acknowledgement"
        assert machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip() == "armed"
        assert flushes_on_fail(machine)
        cut_and_resume(machine)
        assert warnings(machine) == []

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 5): the machine reports at boot what its Stop takes and how long the supply
holds; if they do not fit it begins no Stop, and the next boot is cold with its reason. It promises
to save caches only while a power failure would lead to a Stop that commits.

Method: the same machine with two hold-ups. The negative proof is the short one: a supply that holds
less than the bound, and power that fails nevertheless. QEMU's debugger reads the promise in the
middle of CPU hotplug; attempts are used up by a kernel that refuses to commit.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from lab import format as fmt
from lab.machine import Machine
from lab.machine.console import kernel_warnings
from lab.machine.cut_plan import CutPlan
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from lab.testbed.planted import NONE, plant
from tests.support.claims import ARCH, BOOT_LIMIT_S, machine_name, warnings
from tests.support.gdb_remote import Gdb
from tests.support.trials import Bed, booted_bed, parts, symbols

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
PROMISED = f"nokaslr remanence.hold_up_us={LONG_US}"
TRIES = 3  # REM_STOP_TRIES_MAX
LIMIT_S = 60.0
POLL_S = 0.1

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def booted_with(hold_up_us: int, *more: str) -> Machine:
    config = make_config(machine_name(f"budget-{hold_up_us}"), stop_mode="fast", isa=ARCH)
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


def wait_promise(it: Bed, promised: bool) -> None:
    end_s = time.monotonic() + LIMIT_S
    while flushes_on_fail(it.machine) != promised:
        assert time.monotonic() < end_s, f"flush_on_fail is not {int(promised)}"
        time.sleep(POLL_S)


@pytest.mark.in_turn
def test_promise_is_taken_back_for_a_step_of_cpu_hotplug() -> None:
    """It is 0 where the step ends, in the callback of that; before, at the step's beginning, every
    watcher was told. After the step it is 1 again."""
    with booted_bed("promise-cpu", cmdline_extra=PROMISED) as it:
        address, variable = symbols(parts()), symbols(parts(), "bBdD")["rem_promised"]
        assert flushes_on_fail(it.machine)
        it.machine.run_in_guest(
            "(cd /sys/devices/system/cpu/cpu1; sleep 5; echo 0 > online; echo 1 > online) "
            "> /dev/null 2>&1 &"
        )
        with Gdb(it.machine) as gdb:
            for callback in ("rem_hotplug_leave", "rem_hotplug_online"):
                gdb.run_to(address[callback])
                assert gdb.read(variable, 1) == b"\0", f"promised until {callback}"
        wait_promise(it, True)
        assert it.machine.run_in_guest("nproc --all; nproc").stdout.split() == ["2", "2"]
        assert kernel_warnings(it.machine.console.text()) == []


def test_caches_are_not_promised_without_charge() -> None:
    with booted_bed("promise-charge", cmdline_extra=PROMISED) as it:
        it.machine.supply.set_charge(fmt.Charge.NONE)
        wait_promise(it, False)
        it.machine.supply.set_charge(fmt.Charge.STOP)
        wait_promise(it, True)


def refused(it: Bed) -> int:
    return it.machine.console.text().count("remanence: Stop refused")


def wait_refused(it: Bed, count: int) -> None:
    end_s = time.monotonic() + LIMIT_S
    while refused(it) < count:
        assert time.monotonic() < end_s, f"{refused(it)} attempts, not {count}"
        time.sleep(POLL_S)
    time.sleep(1)
    assert refused(it) == count


@pytest.mark.in_turn
def test_promise_ends_with_the_last_attempt_at_a_stop() -> None:
    """Until PWR_OK is back; then its next drop has all attempts again."""
    with booted_bed("promise-tries", mutants=True, cmdline_extra=PROMISED) as it:
        plant(it.machine, "refuse-commit")
        for drops in (1, 2):
            it.machine.supply.set_power_ok(False)
            wait_refused(it, drops * TRIES)
            assert it.machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip() == "armed"
            assert not flushes_on_fail(it.machine), "promised although no Stop will begin"
            it.machine.supply.set_power_ok(True)
            wait_promise(it, True)
        plant(it.machine, NONE)
        it.machine.guest.close()
        assert it.machine.cut().stopped

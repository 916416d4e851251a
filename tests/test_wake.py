# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: after `remctl stop --wake-in` a machine without a supply on the wire is off by ACPI, its
clock has the alarm, and the alarm may start it; it goes on where it was, without the alarm. A Stop
that is refused leaves no alarm, and a machine without such a clock is not stopped.

Method: nobody speaks on the wire. QEMU pauses where it would end, and its monitor reads the ports:
the clock's registers, and which events of ACPI's fixed hardware are enabled. The lab does what a
chip set would: it starts the machine at that time. Negative proof: a planted bug, with which the
alarm goes off and starts nothing.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lab import run
from lab.machine import Machine, MachineState
from lab.machine.console import kernel_warnings
from lab.machine.supply import PowerSupply
from lab.setup.package_tools import PackageTools
from lab.setup.products import need
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, machine_name
from tests.support.proofs import must_be_found
from tests.support.trials import parts

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

LIMIT_S = 120.0
WAKE_S = 600
SYSFS = "/sys/kernel/remanence"
ALARM = "/sys/class/rtc/rtc0/wakealarm"
# Of QEMU's chip set: the enable word of PM1, and in it the bits of the clock and of the button.
PM1_ENABLE_PORT = 0x602
CLOCK, BUTTON = 1 << 10, 1 << 8
# Of the clock: its control register with the alarm's bit, and seconds, minutes, hours as BCD.
CONTROL, ALARM_ENABLED = 0x0B, 0x20
NOW, SET = (4, 2, 0), (5, 3, 1)
DAY_S = 86_400


class Mute(PowerSupply):
    """A machine whose second serial port leads nowhere."""

    def connect(self, end: socket.socket) -> None:
        self._end = end

    def power_off(self) -> None:
        super().power_off()
        self._end.close()


@contextmanager
def machine(purpose: str, words: str = "", mutants: bool = False) -> Iterator[Machine]:
    kernel = parts(mutants=True).kernel if mutants else None
    config = replace(make_config(machine_name(purpose), kernel=kernel), cmdline_extra=words)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.supply = Mute()
        try:
            made.boot()
            made.wait_up(BOOT_LIMIT_S)
            made.guest.put(need(PackageTools()) / "remctl", "/usr/sbin/remctl")
            made.run_in_guest("chmod 755 /usr/sbin/remctl")
            yield made
            assert kernel_warnings(consoles(made)) == []
        finally:
            # Its supply could not cut the power.
            if made.state is MachineState.RUNNING:
                monitor(made, "quit")
                made.wait_off(LIMIT_S)


def monitor(machine: Machine, words: str) -> str:
    assert machine.qemu is not None
    return machine.qemu.qmp.monitor(words)


def port(machine: Machine, words: str) -> int:
    found = re.search(r"= 0x([0-9a-f]+)", monitor(machine, f"i {words}"))
    assert found, words
    return int(found[1], 16)


def clock(machine: Machine, register: int) -> int:
    monitor(machine, f"o /b 0x70 {register:#x}")
    return port(machine, "/xb 0x71")


def seconds(machine: Machine, registers: tuple[int, int, int]) -> int:
    hours, minutes, rest = (int(f"{clock(machine, one):x}") for one in registers)
    return (hours * 60 + minutes) * 60 + rest


def is_off(machine: Machine) -> bool:
    assert machine.qemu is not None
    return bool(machine.qemu.qmp.execute("query-status")["status"] == "shutdown")


def check_wakes(machine: Machine) -> None:
    """Inner check: off, to be started by the clock, and back."""
    assert machine.qemu is not None
    machine.qemu.qmp.execute("set-action", shutdown="pause")
    request = run.spawn(
        machine.guest.command_line(f"remctl stop --wake-in {WAKE_S}s; echo continued: $?"),
        cwd=machine.files.directory,
        stdout=subprocess.PIPE,
    )
    try:
        wait_until(lambda: is_off(machine), "the machine is off", LIMIT_S)
        events = port(machine, f"/xh {PM1_ENABLE_PORT:#x}")
        left_s = (seconds(machine, SET) - seconds(machine, NOW)) % DAY_S
        assert WAKE_S - LIMIT_S < left_s <= WAKE_S
        assert clock(machine, CONTROL) & ALARM_ENABLED
        assert events & BUTTON
        monitor(machine, "quit")
        assert machine.wait_off(LIMIT_S) is MachineState.OFF
        if not events & CLOCK:
            raise BrokenError("does-not-continue", "the clock's alarm starts nothing")
        machine.resume(rtc_offset_s=WAKE_S)
        machine.wait_resumed(LIMIT_S)
        output, _ = request.communicate(timeout=LIMIT_S)
        assert output == "continued: 0\n"
    finally:
        run.end(request)
    assert machine.run_in_guest(f"cat {ALARM}").stdout.strip() == ""
    assert machine.run_in_guest(f"cat {SYSFS}/status").stdout == "armed\n"


def refusal(machine: Machine, command: str) -> str:
    done = machine.run_in_guest(f"{command} 2>&1", check=False, limit_s=LIMIT_S)
    assert done.returncode == 1, done.stdout
    return done.stdout.strip()


@pytest.mark.in_turn
def test_planned_stop_ends_at_the_clocks_alarm() -> None:
    with machine("wake") as it:
        check_wakes(it)
        hidden = "mkdir -p /run/none && mount --bind /run/none /sys/class/rtc"
        stop = f"unshare -m sh -c '{hidden} && remctl stop --wake-in 8h'"
        none = "this machine has no clock that could start it (/sys/class/rtc/*/wakealarm)"
        assert refusal(it, stop) == f"remctl: {none}"
        soon = "a time to wake is 30 s to 366 days from now, not 5 s"
        assert refusal(it, "remctl stop --wake-in 5s") == f"remctl: {soon}"
        check_wakes(it)


def test_refused_stop_leaves_no_alarm() -> None:
    with machine("wake-refused", "remanence.hold_up_us=1") as it:
        why = "remctl: no Stop is possible now: refused: a Stop may outlast the hold-up"
        assert refusal(it, f"remctl stop --wake-in {WAKE_S}s") == why
        assert it.run_in_guest(f"cat {ALARM}").stdout.strip() == ""


@pytest.mark.soak
def test_kernel_of_the_planted_bugs_wakes() -> None:
    with machine("wake-control", mutants=True) as it:
        check_wakes(it)


@pytest.mark.soak
def test_alarm_that_starts_nothing_is_found() -> None:
    name = "forget-wake"
    with (
        machine(name, f"remanence.mutant={name}", mutants=True) as it,
        must_be_found(name, "the clock's alarm starts nothing"),
    ):
        check_wakes(it)

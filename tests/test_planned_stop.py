# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a planned Stop, requested through suspend or the driver's own file, makes the image that a
power failure makes, and resumes in the same way (invariants 1 to 3): the requesting program
continues.

Method: a program writes with fsync; /sys/power/state or /sys/kernel/remanence/stop is written;
the machine goes off by itself, with PWR_OK present all the time; a new QEMU resumes it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from lab import run
from lab.machine import MachineState
from lab.machine.console import kernel_warnings
from tests.support.trials import STOP_LIMIT_S, Bed, Writer, booted_bed

ACKED_BETWEEN = 3
ANSWER_LIMIT_S = 30.0
SYSFS = "/sys/kernel/remanence"
WAYS = {"suspend": "echo mem > /sys/power/state", "sysfs": f"echo now > {SYSFS}/stop"}

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@pytest.fixture(
    scope="module",
    params=["fast", *(pytest.param(stop, marks=pytest.mark.soak) for stop in ("dpm", "sng"))],
)
def it(request: pytest.FixtureRequest) -> Iterator[Bed]:
    with booted_bed("planned", stop_mode=request.param) as it:
        yield it


def stop_as_planned(it: Bed, way: str) -> None:
    """Stop in one way, and resume."""
    machine = it.machine
    request = run.spawn(
        machine.guest.command_line(f"{WAYS[way]}; echo continued: $?"),
        cwd=machine.files.directory,
        stdout=subprocess.PIPE,
    )
    try:
        assert machine.wait_off(STOP_LIMIT_S) is MachineState.STOPPED
        slot = it.record().newest
        assert slot is not None and slot.state == "ready"
        assert slot.body is not None
        assert slot.body.stop_reason == "PLANNED"
        assert it.resume().sequence == slot.commit.sequence
        # The requesting shell continues, over its connection.
        output, _ = request.communicate(timeout=ANSWER_LIMIT_S)
        assert output == "continued: 0\n"
    finally:
        run.end(request)


def test_planned_stop_resumes(it: Bed) -> None:
    writer = Writer(it.machine)
    try:
        for way in WAYS:
            writer.wait(ACKED_BETWEEN)
            stop_as_planned(it, way)
        writer.wait(ACKED_BETWEEN)
    finally:
        writer.close()
    writer.check(it.machine)
    assert it.kept()
    assert it.last_boot() == "resume"
    assert kernel_warnings(it.machine.console.text()) == []


def test_other_words_do_not_stop(it: Bed) -> None:
    """The driver accepts only its one word, and there is no suspend to disk."""
    before = it.machine.run_in_guest(f"cat {SYSFS}/sequence").stdout
    assert not it.machine.run_in_guest(f"echo later > {SYSFS}/stop", check=False).ok
    assert not it.machine.run_in_guest("echo disk > /sys/power/state", check=False).ok
    shown = it.machine.run_in_guest(f"cat {SYSFS}/sequence {SYSFS}/status").stdout
    assert shown == f"{before}armed\n"

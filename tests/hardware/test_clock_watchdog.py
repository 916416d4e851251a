# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the kernel's watchdog of clock sources, which compares the TSC with the HPET twice a
second, finds both unchanged after Go, on both paths.

Method: the command line lacks tsc=reliable, so the TSC is watched. In a new QEMU process both start
from zero, and the HPET is off. Time is that of counted instructions, as on a busy host the watchdog
would find QEMU's own clocks apart. The negative proof: a Go that leaves the clock sources as
power-on left them. The watchdog takes the TSC for unstable then, and the kernel's time stands still
with the HPET.
"""

from __future__ import annotations

import re

import pytest

from lab.errors import HangError
from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.setup.products import Kernel, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.no_stop import consoles
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.claims import booted, warnings
from tests.support.cmdline import leave_out
from tests.support.proofs import must_be_found

CUTS = 2
CPUS = 1  # vCPUs take turns, and a turn between two readings would look like a slow one
WATCHED_S = 3  # the watchdog looks each half second, and needs two looks
LIMIT_S = 15.0
UNSTABLE = re.compile(r"Marking clocksource '(\w+)' as unstable")
SKIPPED = "read-back delay"  # the watchdog rests for minutes then

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def watched_tsc(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "tsc")


def check_clock_sources_are_kept(machine: Machine) -> None:
    """Inner check: over a cut."""
    cut_and_resume(machine)
    try:
        machine.run_in_guest(f"sleep {WATCHED_S}", limit_s=LIMIT_S)
    except HangError:
        if not UNSTABLE.search(consoles(machine)):
            raise
    if unstable := UNSTABLE.findall(consoles(machine)):
        raise BrokenError("clock-wrong", f"the watchdog finds unstable: {unstable}")
    assert SKIPPED not in consoles(machine)


@pytest.mark.in_turn
@pytest.mark.parametrize("stop", ["fast", pytest.param("dpm", marks=pytest.mark.in_turn)])
def test_watchdog_finds_clocks_unchanged(stop: StopModeName) -> None:
    with booted(f"watchdog-{stop}", CPUS, stop, icount=True) as machine:
        for _ in range(CUTS):
            check_clock_sources_are_kept(machine)
        assert warnings(machine) == []


@pytest.mark.in_turn
def test_clock_source_that_is_not_started_is_found() -> None:
    kernel = need(Kernel("mutants")).bz_image
    with booted("watchdog", CPUS, "fast", kernel, icount=True) as machine:
        check_clock_sources_are_kept(machine)
        plant(machine, "forget-clocksource")
        with must_be_found("forget-clocksource"):
            check_clock_sources_are_kept(machine)

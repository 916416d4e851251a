# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the kernel's watchdog of clock sources, which compares two of them twice a second, finds
both unchanged after Go, on both paths.

Method: tsc=watchdog has the TSC verify the HPET. In a new QEMU process both start from zero, and
the HPET is off. Time is that of counted instructions, as on a busy host the watchdog would find
QEMU's own clocks apart. The negative proof: a Go that leaves the clock sources as power-on left
them.
"""

from __future__ import annotations

import re

import pytest

from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.setup.products import Kernel, need
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.claims import booted, consoles, cut_and_resume, warnings
from tests.support.proofs import must_be_found

CUTS = 3
CPUS = 2
SOURCES = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
WATCHED_S = 3  # the watchdog looks each half second, and needs two looks
UNSTABLE = re.compile(r"Marking clocksource '(\w+)' as unstable")

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def check_clock_sources_are_kept(machine: Machine) -> None:
    """Inner check: over a cut."""
    before = machine.run_in_guest(f"cat {SOURCES}").stdout.split()
    assert {"tsc", "hpet"} <= set(before)
    cut_and_resume(machine)
    machine.run_in_guest(f"sleep {WATCHED_S}")
    after = machine.run_in_guest(f"cat {SOURCES}").stdout.split()
    unstable = UNSTABLE.findall(consoles(machine))
    if after != before or unstable:
        raise BrokenError("clock-wrong", f"unstable: {unstable}; left: {after}, before: {before}")


@pytest.mark.parametrize("stop", ["fast", "dpm"])
def test_watchdog_finds_clocks_unchanged(stop: StopModeName) -> None:
    with booted(f"watchdog-{stop}", CPUS, stop, icount=True, cmdline_extra="tsc=watchdog") as it:
        for _ in range(CUTS):
            check_clock_sources_are_kept(it)
        assert warnings(it) == []


def test_clock_source_that_is_not_started_is_found() -> None:
    kernel = need(Kernel("mutants")).bz_image
    with booted("watchdog", CPUS, "fast", kernel, icount=True, cmdline_extra="tsc=watchdog") as it:
        check_clock_sources_are_kept(it)
        plant(it, "forget-clocksource")
        with must_be_found("forget-clocksource"):
            check_clock_sources_are_kept(it)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 5): on every supply whose window covers the bound, a Stop with volatile caches
ends in time, under load; on one that is too short no Stop starts, and the next boot reports that.

Method: the kernel gets the window of a supply of models/parts/power.toml and the longest time
that a flush of the caches may take in their model; the lab removes the power when the window is
over, in guest time. The bound has one flush, as all CPUs write back at the same time; the boot
CPU's WBINVD after the others' is found. Caches too large for the window are refused: the same
machine, with another number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.bench.flushes import flushes_of
from lab.demo.outcome import Outcome
from lab.demo.run import play
from lab.demo.story import Plan
from lab.machine import Machine, MachineConfig
from lab.machine.caches import DEFAULT_PROFILE
from lab.machine.cut_plan import CutPlan
from lab.power.discharge import read_samples
from lab.power.model import PowerModel
from lab.testbed.cycle import cut_and_resume, stop_for_caches
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from lab.testbed.planted import plant
from lab.testbed.workload import Size, Workload
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, machine_name, warnings
from tests.support.proofs import must_be_found
from tests.support.trials import parts

SYSFS = "/sys/kernel/remanence"
CPUS = 2
CUTS = 5
SUPPLIES = (
    "wsp-intel-750w",  # the shortest window: 10 ms
    "atx-spec-16",
    "atx-22",
    "server-55",
    "wsp-amd-400w",
    "wsp-amd-525w",
    "wsp-intel-1050w",
)
LARGE_PROFILE = "xeon-6330"
TOO_SHORT_FOR_LARGE = ("wsp-intel-750w", "atx-spec-16")
ALL_DIRTY_BYTES = 128 << 20  # more than the caches of any profile hold
NO_STOP_NS = 300_000_000  # far more than any Stop takes
LOADED_WRITES = 50
LOAD_LIMIT_S = 300.0

IN_FULL = SUPPLIES[:1]
EACH_SUPPLY = [
    supply if supply in IN_FULL else pytest.param(supply, marks=pytest.mark.soak)
    for supply in SUPPLIES
]

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def flush_ns(profile: str) -> int:
    """Return the time of WBINVD with all lines dirty, on all CPUs at once."""
    flush = PowerModel.ready().ask(
        "flush", profile=profile, cores=CPUS, how="wbinvd", dirty_bytes=ALL_DIRTY_BYTES
    )
    return int(flush["time_ns"])


def config_on(
    supply: str, profile: str, caches: str | None = None, kernel: Path | None = None
) -> MachineConfig:
    """Configure a machine that knows its supply; *caches* are modelled from the start."""
    window_ns = PowerModel.ready().window_ns(supply)
    config = make_config(machine_name(f"psu-{supply}"), CPUS, "fast", kernel, caches)
    words = (
        config.cmdline_extra,
        f"remanence.hold_up_us={window_ns // 1000}",
        f"remanence.flush_us={flush_ns(profile) // 1000 + 1}",
    )
    return replace(config, cmdline_extra=" ".join(words).strip())


@contextmanager
def booted_on(supply: str, profile: str, kernel: Path | None = None) -> Iterator[Machine]:
    config = config_on(supply, profile, kernel=kernel)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


def budget(machine: Machine) -> dict[str, int]:
    shown = machine.run_in_guest(f"cat {SYSFS}/budget").stdout
    return {name: int(value) for name, value in (line.split() for line in shown.splitlines())}


def status(machine: Machine) -> str:
    return machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip()


def check_one_write_back(machine: Machine) -> None:
    """Check that all CPUs flush side by side: a Stop takes the time of one write-back.

    A flush is mostly a walk through the caches, which have one size.
    """
    flushes = flushes_of(read_samples(machine.files.flushes), CPUS)
    assert flushes.longest_ns > flush_ns(DEFAULT_PROFILE) // 4, flushes
    if flushes.taken_ns > flushes.longest_ns * 5 // 4:
        raise BrokenError("over-budget", f"the flushes take {flushes.taken_ns} ns: {flushes}")


@pytest.mark.in_turn
@pytest.mark.parametrize("supply", EACH_SUPPLY)
def test_five_stops_end_within_the_window(supply: str) -> None:
    window_ns = PowerModel.ready().window_ns(supply)
    with booted_on(supply, DEFAULT_PROFILE) as machine:
        figures = budget(machine)
        assert flush_ns(DEFAULT_PROFILE) < figures["bound_ns"] <= figures["hold_up_ns"] <= window_ns
        stop_for_caches(machine, DEFAULT_PROFILE, window_ns)
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        # That Stop was measured with the host's clock, which proves nothing.
        machine.run_in_guest(f"echo acknowledge > {SYSFS}/budget")
        with Workload(machine, Size(clients=2, depth=2, records=256)) as work:
            work.start()
            for cut in range(CUTS):
                work.wait_acked(LOADED_WRITES * (cut + 1), LOAD_LIMIT_S)
                cut_and_resume(machine)
                assert machine.last_cut is not None
                assert machine.last_cut["margin_ns"] > 0
                assert machine.last_cut["caches"]["lost_lines"] == 0
                check_one_write_back(machine)
                figures = budget(machine)
                assert not figures["exceeded"], figures
            assert not work.failures()
        assert status(machine) == "armed"
        assert warnings(machine) == []


@pytest.mark.in_turn
def test_flush_in_turn_is_found() -> None:
    """A boot CPU that flushes after the others makes a Stop of two write-backs."""
    supply = SUPPLIES[0]
    window_ns = PowerModel.ready().window_ns(supply)
    with booted_on(supply, DEFAULT_PROFILE, parts(mutants=True).kernel) as machine:
        stop_for_caches(machine, DEFAULT_PROFILE, window_ns)
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        machine.run_in_guest(f"echo acknowledge > {SYSFS}/budget")
        cut_and_resume(machine)
        check_one_write_back(machine)
        plant(machine, "flush-in-turn")
        machine.guest.close()
        assert machine.cut().stopped
        with must_be_found("flush-in-turn"):
            check_one_write_back(machine)


@pytest.mark.parametrize(
    "supply",
    [
        TOO_SHORT_FOR_LARGE[0],
        *(pytest.param(supply, marks=pytest.mark.soak) for supply in TOO_SHORT_FOR_LARGE[1:]),
    ],
)
def test_caches_too_large_for_a_supply_are_refused(supply: str) -> None:
    with booted_on(supply, LARGE_PROFILE) as machine:
        figures = budget(machine)
        assert figures["bound_ns"] > figures["hold_up_ns"]
        assert status(machine) == "refused: a Stop may outlast the hold-up"
        assert "no Stop will begin" in consoles(machine)
        machine.guest.close()
        assert not machine.cut(CutPlan(hold_up_ns=NO_STOP_NS)).stopped
        machine.resume()
        assert machine.wait_boot_note(BOOT_LIMIT_S).reason == "COLD_NOT_COMMITTED"


@pytest.mark.soak
@pytest.mark.parametrize("supply", SUPPLIES)
def test_demo_keeps_its_promises_on_each_supply(supply: str) -> None:
    config = config_on(supply, DEFAULT_PROFILE, caches=DEFAULT_PROFILE)
    config = replace(config, hold_up_ns=PowerModel.ready().window_ns(supply))
    outcome = Outcome(lambda _line: None)
    with Machine.create(config, destroy_on_exit=True) as machine:
        play(machine, Plan(writes=500, off_s=1.0, size=Size(2)), outcome)
    assert outcome.result.ok, [check for check in outcome.checks if not check.ok]

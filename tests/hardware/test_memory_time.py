# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: with a memory controller behind the caches a program sees, on its own clock, what the
models of core and memory give: loads and instructions that hit take cycles, such that miss take
what the controller takes; sleeps keep their length, CPUs that work side by side share the time, and
Stop and Go work.

Method: rem-latency follows a chain through memory, so each load waits for the one before, and
jumps through as much code. What the controller takes is asked of `rem-media`, the model's own
program, for the same pattern. Negative proofs: with caches alone the clock does not follow memory,
and the same check is red; so is it where instructions come from nowhere, and the check of CPUs side
by side where one CPU has all the work.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from lab.machine.machine import Machine
from lab.machine.memories import MEMORIES, MEMORY_PROFILE
from lab.media.engine import idle_read_ps
from lab.testbed.cycle import cut_and_resume
from lab.testbed.guest_job import PROGRAM_DIR, numbers_in
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on, served
from lab.verdict import BrokenError
from tests.support.claims import machine_name

CYCLE_PS = 625  # of the profile: 1600 MHz
HIT_PS = CYCLE_PS * 10 / 8  # eight loads in ten instructions
IN_CACHE, IN_MEMORY = 8 << 10, 8 << 20  # bytes: half of the cache, and 512 times as much
TOLERANCE = 0.05
SLEEP_NS = 100_000_000
# A timer is late by a window of guest time at most, and then the kernel has to run.
SLEEP_LATE_NS = 500_000
SIDE_BY_SIDE = 1.1
LOADS = 1_000_000  # threads do not begin at the same moment
TRIES = 5  # an interrupt takes as long as thousands of loads that hit

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def machine_with(
    name: str | None, cpus: int = 1, caches: str = MEMORY_PROFILE
) -> AbstractContextManager[Machine]:
    return booted_on(name, make_config(machine_name("mem"), cpus, "fast"), caches)


def measure(
    machine: Machine, memory_bytes: int, threads: int = 1, loads: int = 100_000
) -> dict[str, int]:
    words = f"--bytes {memory_bytes} --threads {threads} --loads {loads}"
    return numbers_in(machine.run_in_guest(f"{PROGRAM_DIR}/rem-latency {words}").stdout)


def check_loads(machine: Machine, name: str) -> None:
    """Inner check: loads and jumps take what the models give, and a sleep its time."""
    near = [measure(machine, IN_CACHE) for _ in range(TRIES)]
    far = measure(machine, IN_MEMORY)
    for what, hit_ps in (("load", HIT_PS), ("fetch", CYCLE_PS)):
        took_ps, expected_ps = far[f"{what}_ps"], hit_ps + idle_read_ps(MEMORIES[name])
        if took_ps != pytest.approx(expected_ps, rel=TOLERANCE):
            raise BrokenError(f"other-{what}", f"{took_ps} ps, the model: {expected_ps:.0f} ps")
        assert min(one[f"{what}_ps"] for one in near) == pytest.approx(hit_ps, rel=TOLERANCE)
    assert SLEEP_NS <= far["sleep_ns"] <= SLEEP_NS + SLEEP_LATE_NS


def check_side_by_side(machine: Machine, threads: int) -> None:
    """Inner check: several threads take the time of one."""
    one = measure(machine, IN_CACHE, 1, LOADS)["wall_ps"]
    all_ps = measure(machine, IN_CACHE, threads, LOADS)["wall_ps"]
    if all_ps > SIDE_BY_SIDE * one:
        raise BrokenError("one-after-another", f"{threads} threads: {all_ps} ps, one: {one} ps")


@pytest.mark.parametrize("name", ["ocpmem", pytest.param("dram", marks=pytest.mark.in_turn)])
def test_loads_take_what_the_models_give(name: str) -> None:
    with machine_with(name) as machine:
        before = served(machine)
        check_loads(machine, name)
        after = served(machine)
        reads = after["reads"] - before["reads"]
        assert reads >= 100_000
        mean_ps = (after["read_ns"] - before["read_ns"]) * 1000 / reads
        # What prepares the chain reads in order, which is faster where rows stay open.
        assert (
            idle_read_ps(MEMORIES[name]) / 2
            < mean_ps
            < idle_read_ps(MEMORIES[name]) * (1 + 2 * TOLERANCE)
        )
        assert after["read_pj"] > before["read_pj"]
        # One CPU for four threads: the check of CPUs side by side must be red.
        with pytest.raises(BrokenError) as found:
            check_side_by_side(machine, 4)
        assert found.value.verdict == "one-after-another"


def test_cpus_share_the_time_and_go_on_after_a_power_failure() -> None:
    with machine_with("ocpmem", cpus=4) as machine:
        check_side_by_side(machine, 4)
        before = machine.run_in_guest("cut -d' ' -f1 /proc/uptime").stdout
        cut_and_resume(machine)
        assert float(machine.run_in_guest("cut -d' ' -f1 /proc/uptime").stdout) >= float(before)
        check_loads(machine, "ocpmem")
        check_side_by_side(machine, 4)


@pytest.mark.in_turn
def test_clock_that_does_not_follow_memory_is_found() -> None:
    with machine_with(None) as machine, pytest.raises(BrokenError) as found:
        check_loads(machine, "ocpmem")
    assert found.value.verdict == "other-load"


def test_instructions_that_come_from_nowhere_are_found() -> None:
    caches = f"{MEMORY_PROFILE}:no-fetches"
    with machine_with("ocpmem", caches=caches) as machine, pytest.raises(BrokenError) as found:
        check_loads(machine, "ocpmem")
    assert found.value.verdict == "other-fetch"

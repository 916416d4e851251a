# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: where fsync ends in memory, programs whose pages are on a swap disk lose nothing, and what
was acknowledged is there though memory was short all the time.

Method: a program that knows what each of its pages has to hold (lab/testbed/working_set.c) has more
of them than the machine has memory, and swaps to a second disk, while a witness syncs files. The
power fails with a Stop, from which both go on, and then without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.testbed.cycle import cut_and_resume
from lab.testbed.fsync_guest import (
    counts,
    install,
    lose_power,
    machine_of,
    replay,
    state,
    wait_up,
    witness,
)
from lab.testbed.machines import make_config
from lab.testbed.mixed_guest import MIB_BYTES, PAGE_BYTES, WorkingSet
from lab.testbed.mixed_guest import install as install_programs
from lab.testbed.pm_guest import kernel_complaints, sh
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

NVRAM_BYTES = 512 * MIB_BYTES
SWAP_BYTES = 512 * MIB_BYTES
SWAP = "/dev/vdb"
PAGES = NVRAM_BYTES // PAGE_BYTES  # more than what the kernel leaves
HOT = PAGES // 16
SWAPPED_MIN_KIB = 16 << 10
STEPS = 60
ROUNDS = 4


@pytest.fixture
def machine() -> Iterator[Machine]:
    config = make_config(machine_name("fsync-swap"))
    config = replace(config, nvram_bytes=NVRAM_BYTES, blank_bytes=SWAP_BYTES)
    with machine_of(config) as made:
        made.boot()
        wait_up(made)
        install(made)
        install_programs(made, ["working_set"])
        sh(made, f"sync; mkswap -q {SWAP} && swapon {SWAP}")
        yield made


def swapped_kib(machine: Machine) -> int:
    return int(sh(machine, "awk 'NR > 1 {print $4}' /proc/swaps").stdout)


def test_swap_and_promises_go_on(machine: Machine) -> None:
    work = WorkingSet.start(machine, "swapping", PAGES, HOT, children=0)
    assert swapped_kib(machine) > SWAPPED_MIN_KIB
    assert state(machine) == "memory"
    before = counts(machine)
    with witness(machine) as seen:
        seen.wait(STEPS)
        assert counts(machine)["in_memory"] > before["in_memory"]
        cut_and_resume(machine)
        work.wait_rounds(ROUNDS)
        seen.wait(STEPS)
        assert swapped_kib(machine) > SWAPPED_MIN_KIB
        assert not kernel_complaints(machine)
        lose_power(machine)
    report = replay(machine)
    assert not report["damaged"] and not report["failed"], report
    assert seen.check() == []
    assert not kernel_complaints(machine)

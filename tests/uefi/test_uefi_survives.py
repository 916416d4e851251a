# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine that UEFI boots outlives power failures as one without does: firmware, loader,
Go, and programs continue.

Method: set-up's kernel and root, started by OVMF; the load and the checks of
`tests/test_claims_cuts.py`. QEMU ends by SIGKILL at each cut, and a new one starts with its
firmware.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine import Machine
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config, with_uefi
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, machine_name, warnings
from tests.test_claims_cuts import play

CUTS, CUTS_IN_CI = 25, 3

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@contextmanager
def booted(purpose: str, cpus: int) -> Iterator[Machine]:
    config = with_uefi(make_config(machine_name(purpose), cpus, "fast"))
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


@pytest.mark.parametrize("cpus", [*(pytest.param(n, marks=pytest.mark.in_turn) for n in (1, 2)), 4])
def test_cuts_in_a_row_lose_nothing(cpus: int) -> None:
    with booted("uefi", cpus) as machine:
        play(machine, CUTS_IN_CI)


@pytest.mark.soak
@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_25_cuts_in_a_row_lose_nothing(cpus: int) -> None:
    with booted("uefi-25", cpus) as machine:
        play(machine, CUTS)


def places(machine: Machine) -> tuple[str, ...]:
    """Where the kernel is, by the addresses that are random: its text, its memory, its heap."""
    text = machine.run_in_guest("grep -w -e _text -e page_offset_base /proc/kallsyms").stdout
    memory = machine.run_in_guest("grep 'Kernel code' /proc/iomem").stdout
    return (*text.splitlines(), memory.strip())


@pytest.mark.in_turn
def test_random_place_of_the_kernel_is_kept_by_go_and_chosen_by_a_cold_boot() -> None:
    with booted("uefi-kaslr", 2) as machine:
        before = places(machine)
        cut_and_resume(machine)
        assert places(machine) == before
        machine.guest.close()
        assert machine.cut().stopped
        machine.resume(cold=True)
        machine.wait_up(BOOT_LIMIT_S)
        note = machine.wait_boot_note(GO_LIMIT_S)
        assert note.reason == "COLD_ASKED"
        assert places(machine) != before
        shown = machine.run_in_guest("cat /sys/kernel/remanence/last_boot").stdout
        assert shown.split()[0] == "asked"
        assert warnings(machine) == []

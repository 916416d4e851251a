# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on RISC-V, too, power failures under load lose nothing and repeat nothing, with 1, 2, 4
and 8 harts: with harts side by side, with volatile caches that a maker's instructions write back as
a whole, and where Stop has to go through memory line by line.

Method: as tests/test_claims_cuts.py, with its load and its checks.
"""

from __future__ import annotations

import pytest

from lab.machine.config import StopModeName
from lab.testbed.cycle import cut_and_resume
from tests.riscv.harts import BY_LINES, CACHES, booted_riscv, check_stop_writes_back
from tests.test_claims_cuts import CUTS, CUTS_OF_FEW_CPUS, play

CUTS_OF_DRIVERS = 2

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


def test_5_cuts_in_a_row_lose_nothing_on_riscv() -> None:
    with booted_riscv("rv-cuts", 4) as machine:
        assert machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout == "fast\n"
        assert machine.run_in_guest("uname -m").stdout == "riscv64\n"
        play(machine, CUTS_OF_FEW_CPUS)


@pytest.mark.soak
@pytest.mark.parametrize("harts", [1, 2, 4, 8])
def test_25_cuts_in_a_row_lose_nothing_on_riscv(harts: int) -> None:
    with booted_riscv("rv-cuts", harts) as machine:
        play(machine, CUTS)


@pytest.mark.in_turn
@pytest.mark.parametrize("mode", ["dpm", "sng"])
def test_drivers_stop_and_go_on_riscv(mode: StopModeName) -> None:
    """Generic power management: interrupt controllers and the wire come back beside it."""
    with booted_riscv(f"rv-{mode}", 2, stop_mode=mode) as machine:
        assert machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout == f"{mode}\n"
        play(machine, CUTS_OF_DRIVERS)


def test_first_hart_cannot_be_unplugged() -> None:
    """It commits, and continues first. Linux lets any hart go here."""
    with booted_riscv("rv-first", 2) as machine:
        first = "/sys/devices/system/cpu/cpu0/online"
        refused = machine.run_in_guest(f"echo 0 > {first}", check=False)
        assert refused.returncode != 0
        assert "busy" in refused.stderr
        cut_and_resume(machine)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("flush_us", "status"),
    [(0, "refused: a Stop may outlast the hold-up"), (300_000, "armed")],
)
def test_stop_by_lines_fits_only_what_it_is_told(flush_us: int, status: str) -> None:
    words = f"nokaslr remanence.hold_up_us=1000000 remanence.flush_us={flush_us}"
    with booted_riscv("rv-budget", 2, cpu_model=BY_LINES, cmdline_extra=words) as machine:
        assert machine.run_in_guest("cat /sys/kernel/remanence/status").stdout.strip() == status
        promised = machine.run_in_guest("cat /sys/kernel/remanence/flush_on_fail").stdout
        assert promised == ("1\n" if status == "armed" else "0\n")


@pytest.mark.soak
@pytest.mark.parametrize("harts", [1, 2, 4])
def test_cuts_by_lines_lose_nothing_on_riscv(harts: int) -> None:
    with booted_riscv("rv-lines", harts, cpu_model=BY_LINES) as machine:
        play(machine, CUTS_OF_FEW_CPUS)


@pytest.mark.parametrize("harts", [pytest.param(n, marks=pytest.mark.soak) for n in (1, 4)] + [2])
def test_volatile_caches_are_written_back_on_riscv(harts: int) -> None:
    """Twice, as a Go begins with caches that are empty."""
    with booted_riscv("rv-caches", harts, CACHES) as machine:
        for _ in range(2):
            check_stop_writes_back(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which boot is repeated: one with all CPUs halted; no other, and not twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import HangError
from lab.machine import lost_interrupt
from lab.machine.config import MachineConfig
from lab.machine.lost_interrupt import BOOTED_AGAIN, LostInterrupt

LIMIT_S = 1.0
pytest_plugins = ["pytester"]


class Guest:
    """A machine whose first boots are not ready in time."""

    def __init__(
        self, hangs: int, registers: str = "HLT=1", icount: bool = False, x2apic: bool = False
    ) -> None:
        self.hangs = hangs
        self.boots = 1
        self.config = SimpleNamespace(name="m", icount=icount, x2apic=x2apic)
        self.qemu = SimpleNamespace(qmp=SimpleNamespace(monitor=lambda _: registers))
        self.console = self

    def position(self) -> int:
        return 7

    def missing(self, pattern: str, why: str) -> str:
        return f"no {pattern} {why}"

    def expect(self, pattern: str, limit_s: float, since: int = 0) -> str:
        if self.boots <= self.hangs:
            raise HangError(f"not within {limit_s:g} s")
        return pattern

    def boot_again(self) -> None:
        self.boots += 1


@pytest.fixture(autouse=True)
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages. Without waits, and not on stderr, where the end of the run would find them."""
    lines: list[str] = []
    monkeypatch.setattr(lost_interrupt, "SAMPLE_S", 0.0)
    monkeypatch.setattr(lost_interrupt, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(lost_interrupt, "info", lines.append)
    return lines


def wait(guest: Any, since: int = 0, again: bool = True) -> int:
    lost_interrupt.wait_ready(guest, LIMIT_S, since, again)
    return int(guest.boots)


def test_guest_that_comes_up_is_booted_once(messages: list[str]) -> None:
    assert wait(Guest(0)) == 1
    assert messages == []


def test_boot_with_halted_cpus_is_repeated_and_reported(messages: list[str]) -> None:
    assert wait(Guest(1, "RIP=1 HLT=1\nRIP=2 HLT=1")) == 2
    assert [BOOTED_AGAIN in line for line in messages] == [True]


@pytest.mark.parametrize(("since", "again"), [(1, True), (0, False)])
def test_neither_a_reset_nor_a_tested_boot_is_repeated(since: int, again: bool) -> None:
    guest = Guest(1)
    with pytest.raises(HangError):
        wait(guest, since, again)
    assert guest.boots == 1


@pytest.mark.parametrize("registers", ["RIP=1 HLT=1\nRIP=2 HLT=0", "nothing"])
def test_cpu_at_work_is_a_hang(registers: str) -> None:
    guest = Guest(1, registers)
    with pytest.raises(HangError, match="within 1 s"):
        wait(guest)
    assert guest.boots == 1


def test_guest_that_prints_is_not_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(1)
    positions = iter(range(10**9))
    monkeypatch.setattr(guest, "position", lambda: next(positions))
    with pytest.raises(HangError):
        wait(guest)
    assert guest.boots == 1


def test_boots_under_icount_are_not_sampled() -> None:
    guest = Guest(1, icount=True)
    with pytest.raises(HangError):
        wait(guest)
    assert guest.boots == 1


def test_boots_of_a_machine_that_cannot_lose_it_are_not_repeated() -> None:
    guest = Guest(1, x2apic=True)
    with pytest.raises(HangError, match="within 1 s"):
        wait(guest)
    assert guest.boots == 1


def test_only_machines_without_x2apic_can_lose_it() -> None:
    config = MachineConfig(name="m", kernel=Path("k"))
    assert config.x2apic
    assert not replace(config, iommu=False).x2apic
    assert not replace(config, icount=True).x2apic
    assert not replace(config, cmdline_extra="nox2apic").x2apic


def test_second_hang_is_reported_as_a_hang() -> None:
    guest = Guest(2)
    with pytest.raises(LostInterrupt):
        wait(guest)
    assert guest.boots == 2


def test_end_of_a_run_reports_a_repeated_boot_once(pytester: pytest.Pytester) -> None:
    """Also for a test that passed and so has no output."""
    pytester.makeconftest((Path(__file__).parent.parent / "conftest.py").read_text())
    pytester.makepyfile(f"""
        import sys
        def test_it(): print("m: {BOOTED_AGAIN}", file=sys.stderr)
        def test_other(): print("nothing", file=sys.stderr)
    """)
    lines = pytester.runpytest("-p", "no:cacheprovider").outlines
    assert sum(BOOTED_AGAIN in line for line in lines) == 1

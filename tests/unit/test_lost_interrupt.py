# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which boot is made again: one whose CPUs are all halted; no other, and no second time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import HangError
from tests import lost_interrupt


class Guest:
    """A machine whose first boots are not ready in time."""

    def __init__(self, hangs: int, registers: str) -> None:
        self.hangs = hangs
        self.boots = 1
        self.config = SimpleNamespace(name="m")
        self.console = SimpleNamespace(position=lambda: 7)
        self.qemu = SimpleNamespace(qmp=SimpleNamespace(monitor=lambda _: registers))
        self.guest = SimpleNamespace(wait_ssh=lambda _: None)

    def wait_ready(self, limit_s: float) -> None:
        if self.boots <= self.hangs:
            raise HangError(f"not within {limit_s:g} s")

    def again(self) -> None:
        self.boots += 1


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_interrupt, "SAMPLE_S", 0.0)


def wait(guest: Any) -> int:
    lost_interrupt.wait_guest(guest, 1.0, guest.again)
    return int(guest.boots)


def test_a_guest_that_comes_up_is_booted_once() -> None:
    assert wait(Guest(0, "HLT=1")) == 1


def test_halted_cpus_are_booted_once_more() -> None:
    assert wait(Guest(1, "RIP=1 HLT=1\nRIP=2 HLT=1")) == 2


@pytest.mark.parametrize("registers", ["RIP=1 HLT=1\nRIP=2 HLT=0", "nothing"])
def test_a_cpu_at_work_is_a_hang(registers: str) -> None:
    with pytest.raises(HangError):
        wait(Guest(1, registers))


def test_a_second_hang_is_one() -> None:
    with pytest.raises(HangError):
        wait(Guest(2, "HLT=1"))

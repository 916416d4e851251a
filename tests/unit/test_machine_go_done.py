# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem resume` succeeds when programs run, not when the loader has entered an image.

Method: the wait for the last event of Go, on a fake machine. Without this wait an image whose data
was never flushed would pass though its kernel crashes (tests/hardware/test_caches.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.errors import Exit, InfraError
from lab.machine.machine import Machine, MachineState
from lab.verdict import BrokenError, StuckError, verdict_of


@dataclass
class Fake:
    """What the wait needs of a machine; *polls* is how often programs do not run yet."""

    polls: int
    resets: int = 0
    state: MachineState = MachineState.RUNNING
    why: str | None = None
    config: Any = field(default_factory=lambda: SimpleNamespace(name="fake"))

    def _programs_run(self, sequence: int) -> bool:
        assert sequence == 4
        self.polls -= 1
        return self.polls < 0

    def _check_runs(self, what: str) -> None:
        Machine._check_runs(cast(Machine, self), what)

    def kernel_warnings(self) -> list[str]:
        return ["BUG: unable to handle page fault"]

    def program_counters(self) -> list[str]:
        return ["0x0"]


def wait(fake: Fake, limit_s: float = 60.0) -> None:
    Machine.wait_go_done(cast(Machine, fake), 4, limit_s)


def test_programs_that_run_end_the_wait() -> None:
    fake = Fake(polls=3)
    wait(fake)
    assert fake.polls == -1


def test_crash_after_the_image_was_entered_is_broken() -> None:
    with pytest.raises(BrokenError, match="image 4 was entered and its kernel crashed: BUG") as it:
        wait(Fake(polls=3, resets=1))
    assert (it.value.exit_code, verdict_of(it.value)) == (Exit.BROKEN, "crashed")


def test_failure_of_qemu_is_no_crash_of_the_kernel() -> None:
    with pytest.raises(InfraError, match="Bad icount read"):
        wait(Fake(polls=3, state=MachineState.FAILED, why="QEMU ended with -6: Bad icount read"))


def test_silent_kernel_is_a_hang() -> None:
    with pytest.raises(StuckError, match="programs do not run") as it:
        wait(Fake(polls=1_000_000), limit_s=0.0)
    assert (it.value.exit_code, verdict_of(it.value)) == (Exit.HANG, "does-not-continue")

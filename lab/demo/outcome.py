# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a demonstration found out: checks, figures and the story, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lab.result import Result
from lab.timeline import Timeline


@dataclass(frozen=True)
class Check:
    """One promise and whether it was kept."""

    name: str
    ok: bool
    detail: str


@dataclass
class Outcome:
    """Grows while the story is told."""

    tell: Callable[[str], None]
    story: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    timeline: Timeline | None = None
    result: Result = field(default_factory=lambda: Result("demo"))
    caches: str | None = None  # profile of the machine's volatile caches

    def say(self, line: str) -> None:
        self.story.append(line)
        self.tell(line)

    def check(self, name: str, ok: bool, detail: str) -> bool:
        """Note a promise; one that is broken makes the whole demonstration fail."""
        self.checks.append(Check(name, ok, detail))
        self.result.ok = self.result.ok and ok
        if not ok:
            self.say(f"BROKEN: {name}: {detail}")
        return ok

    def modelled(self) -> tuple[str, ...]:
        """What the cut took."""
        return MODELLED if self.caches is None else (*MODELLED, CACHES_LOST.format(self.caches))

    def not_modelled(self) -> tuple[str, ...]:
        """What this demonstration does not show."""
        mine = CACHES_KEPT if self.caches is None else TIME_OF_MODEL
        return (mine, *NOT_MODELLED)


# Told at the end of each demonstration, so that nobody takes it for more than it is.
CACHES_KEPT = (
    "CPU caches are not volatile here (--caches off): the memory file holds what caches held, so a "
    "forgotten flush would not be noticed. The hold-up is counted in host time, because the "
    "guest's clock follows it."
)
TIME_OF_MODEL = (
    "Times are those of a simple core and a flat memory; memory controllers are not modelled. What "
    "the clients saw took as long as the emulation did."
)
CACHES_LOST = (
    "CPU caches are volatile, as those of {}: NVRAM began its new life with the lines that had "
    "been written back."
)
NOT_MODELLED = (
    "The disk is declared `protected`: its file keeps what QEMU had accepted, as a disk with "
    "power-loss protection does; `rem run --disk-cache volatile` has the other kind.",
    "The times of Stop and Go are those of an emulated CPU, not of hardware.",
)
MODELLED = (
    "DRAM, CPU registers, interrupt controllers, devices and requests in flight are gone with the "
    "QEMU process, which ends by SIGKILL; only the NVRAM file and the disk file are left.",
    "The network outlives the machine, as a switch does: the peers' connections are the host "
    "kernel's own and wait.",
)

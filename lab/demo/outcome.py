# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a demonstration found: checks, figures and the story, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lab.record.timeline import Timeline
from lab.result import Result


@dataclass(frozen=True)
class Check:
    """One promise, and whether it was kept."""

    name: str
    ok: bool
    detail: str


@dataclass
class Outcome:
    """Grows while the demonstration runs."""

    print_line: Callable[[str], None]
    story: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    timeline: Timeline | None = None
    result: Result = field(default_factory=lambda: Result("demo"))
    caches: str | None = None  # profile of the machine's volatile caches
    no_flush: str | None = None  # which of Stop's flushes were disabled

    def report(self, line: str) -> None:
        """Print a line and keep it for the page."""
        self.story.append(line)
        self.print_line(line)

    def check(self, name: str, ok: bool, detail: str) -> bool:
        """Note a check. One that fails makes the whole demonstration fail."""
        self.checks.append(Check(name, ok, detail))
        self.result.ok = self.result.ok and ok
        if not ok:
            self.report(f"FAILED: {name}: {detail}")
        return ok

    @property
    def broken(self) -> list[Check]:
        """The promises that were not kept."""
        return [check for check in self.checks if not check.ok]

    def heading(self) -> str:
        """What happened, in one line that is true of the checks."""
        how = "The power failed"
        if self.no_flush is not None:
            how = f"Stop's flushes were disabled ({self.no_flush})"
        if not self.checks:
            return f"{how}, and nothing was checked"
        if self.broken:
            what = "a check" if self.no_flush is None else "the proof"
            return f'{how}, and {what} failed: "{self.broken[0].name}"'
        if self.no_flush is not None:
            return f"{how}: data was lost, and both checks detected it"
        return f"{how}, and everything continued"

    def modelled(self) -> tuple[str, ...]:
        """What the cut took away."""
        return MODELLED if self.caches is None else (*MODELLED, CACHES_LOST.format(self.caches))

    def not_modelled(self) -> tuple[str, ...]:
        """What this demonstration does not show."""
        mine = CACHES_KEPT if self.caches is None else TIME_OF_MODEL
        return (mine, *NOT_MODELLED)


# The limits of each demonstration, printed at its end.
CACHES_KEPT = (
    "CPU caches are not volatile here (--caches off): the memory file holds what caches held, so a "
    "missing flush would not be noticed. The hold-up is counted in host time, because the "
    "guest's clock follows it."
)
TIME_OF_MODEL = (
    "Times are those of a simple core and a flat memory; memory controllers are not modelled. What "
    "the clients measured took as long as the emulation did."
)
CACHES_LOST = (
    "CPU caches are volatile, as those of {}: NVRAM resumed with the lines that had been written "
    "back."
)
NOT_MODELLED = (
    "The disk is declared `protected`: its file keeps what QEMU had accepted, as a disk with "
    "power-loss protection does; `rem run --disk-cache volatile` has the other kind.",
    "The times of Stop and Go are those of an emulated CPU, not of hardware.",
)
MODELLED = (
    "DRAM, CPU registers, interrupt controllers, devices and requests in flight are lost with the "
    "QEMU process, which ends by SIGKILL; only the NVRAM file and the disk file are left.",
    "The network survives the machine, as a switch does: the peers' connections are the host "
    "kernel's own and wait.",
)

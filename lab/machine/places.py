# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Places in Stop and Go, to the instruction: `commit+300` is 300 instructions into that phase.

A phase begins where one function of the kernel or of the loader is entered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.errors import UsageError

# In the order of time; those of Stop are the kernel's.
STOP_PHASES = {
    "stop": "rem_stop_begin",  # in the interrupt of PWR_OK
    "park": "rem_park_cpu",
    "devices": "rem_devices_stop",
    "commit": "rem_record_commit",
}
GO_LOADER_PHASES = {"consume": "consume", "enter": "image_enter"}
GO_KERNEL_PHASES = {"go": "rem_go_begin"}
GO_PHASES = {**GO_LOADER_PHASES, **GO_KERNEL_PHASES}
PHASES = (*STOP_PHASES, *GO_PHASES)


@dataclass(frozen=True)
class Place:
    """A number of instructions after a phase begins."""

    phase: str
    insns: int

    @staticmethod
    def parse(text: str, phases: dict[str, str], option: str) -> Place:
        """*phases* are those that the command's *option* accepts."""
        match = re.fullmatch(r"([a-z]+)(?:\+(\d{1,12}))?", text)
        if not match or match[1] not in phases:
            names = ", ".join(phases)
            raise UsageError(f"{option} {text}: give PHASE or PHASE+INSTRUCTIONS, one of {names}")
        return Place(match[1], int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.phase}+{self.insns}"

    def mark(self) -> int:
        """The number of the plugin's mark."""
        return PHASES.index(self.phase)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the caches' write-back takes of a Stop: pure functions of the plugin's log of flushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.errors import RemError
from lab.power.discharge import Sample, flushes_in


@dataclass(frozen=True)
class Flushes:
    """The write-backs of one Stop, in nanoseconds of the hold-up."""

    taken_ns: int  # from the first CPU's begin to the last one's end
    longest_ns: int  # of one CPU
    lines: int  # dirty when the first began
    line_ns: float = 0.0  # of a line, where all CPUs write through one controller

    @property
    def vs_one(self) -> float:
        """The time of all, over that of one CPU or of all lines through the controller, whichever
        is longer: 1 if they are side by side.
        """
        return self.taken_ns / max(self.longest_ns, self.lines * self.line_ns)


def flushes_of(samples: Sequence[Sample], cpus: int, line_ns: float = 0.0) -> Flushes:
    """Raise RemError unless each CPU has begun and ended its write-back."""
    ended = [flush for flush in flushes_in(samples) if flush.end.what == "end"]
    if {flush.end.cpu for flush in ended} != set(range(cpus)):
        raise RemError(f"{len(ended)} CPUs began and ended their write-back, of {cpus}")
    first_ns = min(flush.begin.time_ns for flush in ended)
    return Flushes(
        taken_ns=max(flush.end.time_ns for flush in ended) - first_ns,
        longest_ns=max(flush.end.time_ns - flush.begin.time_ns for flush in ended),
        lines=max(flush.begin.lines for flush in ended),
        line_ns=line_ns,
    )

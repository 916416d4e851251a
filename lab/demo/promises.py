# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The promises of a demonstration in one machine, and how many of them were kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.result import Result


@dataclass
class Promises:
    """Counts while the demonstration runs."""

    print_line: Callable[[str], None]
    result: Result
    made: int = 0
    kept: int = 0

    def check(self, kept: bool, what: str) -> None:
        """Count and print one promise."""
        self.made += 1
        self.kept += kept
        self.print_line(f"  {'kept' if kept else 'BROKEN'}: {what}")

    def end(self) -> None:
        """Print the last line and add the figures; ok only if all were kept."""
        self.print_line(f"{self.kept} of {self.made} promises kept.")
        self.result.ok = self.kept == self.made
        self.result.add("promises", self.made, "promises", "counted")
        self.result.add("promises_kept", self.kept, "promises", "counted")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a demonstration in one machine says, and its promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.result import Result


@dataclass
class Told:
    """What the demonstration says, and which of its promises were kept."""

    tell: Callable[[str], None]
    result: Result
    promises: int = 0
    kept: int = 0

    def promise(self, kept: bool, what: str) -> None:
        self.promises += 1
        self.kept += kept
        self.tell(f"  {'kept' if kept else 'BROKEN'}: {what}")

    def end(self) -> None:
        """The last line, and the figures; all must have been kept."""
        self.tell(f"{self.kept} of {self.promises} promises kept.")
        self.result.ok = self.kept == self.promises
        self.result.add("promises", self.promises, "promises", "counted")
        self.result.add("promises_kept", self.kept, "promises", "counted")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lines of the RTL that ran, from what Verilator's counters wrote.

A record is `C 'KEY VALUE KEY VALUE ...' COUNT`, with \\x01 before a key and \\x02 before a value.
A line counts once, whichever channel ran it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import RemError

STATES = 16  # of the controller, psm.sv


@dataclass
class Coverage:
    """Points of all runs so far, as (file, line, kind of branch), and how often each ran."""

    points: dict[tuple[str, int, str], int] = field(default_factory=dict)
    states: set[int] = field(default_factory=set)

    def add(self, file: Path) -> None:
        """Add the counters of one run."""
        for row in file.read_text(encoding="latin-1").splitlines():
            if not row.startswith("C "):
                continue
            text, _, count = row[3:].rpartition("' ")
            keys = dict(part.split("\x02", 1) for part in text.split("\x01") if "\x02" in part)
            if not {"f", "l"} <= keys.keys():
                raise RemError(f"{file}: not a counter of Verilator: {row!r}")
            name = Path(keys["f"]).name
            if name.startswith("psm"):
                point = (name, int(keys["l"]), re.sub(r"\d+", "", keys.get("o", "")))
                self.points[point] = self.points.get(point, 0) + int(count)

    @property
    def percent(self) -> float:
        ran = sum(count > 0 for count in self.points.values())
        return 100 * ran / len(self.points) if self.points else 0.0

    @property
    def missed(self) -> list[str]:
        """FILE:LINE of what never ran."""
        return sorted({f"{at[0]}:{at[1]}" for at, count in self.points.items() if not count})

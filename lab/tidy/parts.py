# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Times, energies, power, rates and clocks of processors, memories, disks and supplies stand in
models/parts.

Checked are constants of models, benchmarks and experiments: one with a part in its name and one of
these units at its end is a finding if it is a number. A list of numbers is a sweep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.tidy.finding import Finding

RULE = "parts"
CHECKED = ("machine/cache/", "machine/plugin/", "models/", "lab/bench/", "lab/experiment/")
CHECKED_EXPERIMENTS = re.compile(r"experiments/[\w-]+/experiment\.py")
PARTS = frozenset(
    {"read", "write", "program", "erase", "flush", "fence", "walk", "hit", "miss", "access"}
    | {"cache", "core", "cpu", "dram", "pram", "nvram", "memory", "media", "disk", "flash", "line"}
    | {"row", "bank", "burst", "channel", "supply", "battery", "capacitor", "base", "idle"}
)
UNITS = frozenset({"ps", "ns", "us", "pj", "nj", "uj", "mw", "w", "mhz", "ghz", "per_ns", "per_s"})
_NUMBER = re.compile(
    r"^\s*(?:pub(?:\([\w :]+\))? )?(?:const )?([A-Z][A-Z0-9_]+)\b(?:: [\w<>]+)?"
    r" = [\d_.]+(?:e\d+)?;?(?: *(?:#|//).*)?$",
    re.M,
)


def is_of_a_part(name: str) -> bool:
    """Whether a constant's name is that of a part's number."""
    words = name.strip("_").lower().split("_")
    has_unit = words[-1] in UNITS or "_".join(words[-2:]) in UNITS
    return has_unit and bool(PARTS.intersection(words))


def check_parts(name: str, text: str) -> Iterator[Finding]:
    is_checked = name.startswith(CHECKED) or CHECKED_EXPERIMENTS.fullmatch(name)
    if not is_checked or not name.endswith((".py", ".rs")):
        return
    for match in _NUMBER.finditer(text):
        if is_of_a_part(match[1]):
            line = text.count("\n", 0, match.start(1)) + 1
            yield Finding(name, line, f"{match[1]}: models/parts has the numbers of parts", RULE)

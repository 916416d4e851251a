# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Processors of the table of parts (models/parts/processors.toml), for experiments."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from lab.machine.caches import PROFILES_FILE

LEVELS_OF_A_CPU, LAST_LEVEL = ("l1", "l2"), "llc"


@cache
def _described() -> dict[str, Any]:
    return tomllib.loads(PROFILES_FILE.read_text(encoding="utf-8"))


def cache_bytes(profile: str, cpus: int) -> int:
    """What all caches of so many CPUs hold, counting what is in two levels twice: a program that
    stores to so much leaves every line dirty."""
    own_kib = sum(level_kib(profile, level) for level in LEVELS_OF_A_CPU)
    return (cpus * own_kib + level_kib(profile, LAST_LEVEL)) << 10


def level_kib(profile: str, level: str) -> int:
    """Of one cache: `l1`, `l2` or `llc`; 0 if the processor has none."""
    return int(_described()[profile].get(level, {}).get("kib", 0))


def processor_number(profile: str, name: str) -> float:
    """A number of a processor, in the unit that its name ends with."""
    return float(_described()[profile][name])

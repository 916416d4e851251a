# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Numbers of the table of parts: models/parts/memory."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from lab.errors import InfraError
from lab.paths import repo_dir

PARTS_DIR = repo_dir() / "models" / "parts"


@cache
def _values(part: str) -> dict[str, Any]:
    path = PARTS_DIR / "memory" / f"{part}.toml"
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["values"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise InfraError(f"{path} is no table of a part: {error}") from error
    return found


def part_number(part: str, name: str) -> float:
    """A number, in the unit that its name ends with."""
    try:
        return float(_values(part)[name]["value"])
    except (KeyError, TypeError, ValueError) as error:
        raise InfraError(f"models/parts/memory/{part}.toml has no number {name}") from error

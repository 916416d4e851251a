# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Numbers of models/parts/power.toml, and the power model with one of them changed.

For sweeps of what is ASSUMED there. What the model computes is asked of the model.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lab.errors import InfraError
from lab.paths import repo_dir
from lab.power.model import PowerModel

POWER_FILE = repo_dir() / "models" / "parts" / "power.toml"


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(POWER_FILE.read_text(encoding="utf-8"))


def power_number(kind: str, name: str, field: str) -> int:
    """A number, in the unit that its field ends with."""
    try:
        return int(_table()[kind][name][field]["value"])
    except (KeyError, TypeError, ValueError) as error:
        raise InfraError(f"{POWER_FILE}: no number {kind}.{name}.{field}") from error


def assumed(kind: str, name: str) -> list[str]:
    """Fields of an entry whose number has no source but an assumption."""
    fields = _table()[kind][name]
    return [
        field
        for field, one in fields.items()
        if isinstance(one, dict) and "ASSUMED" in one["source"]
    ]


def with_number(
    model: PowerModel, folder: Path, place: tuple[str, str, str], number: int
) -> PowerModel:
    """The model with another number at a kind, name and field, of a copy of the table in
    *folder*."""
    power_number(*place)
    kind, name, field = place
    head, mark, rest = POWER_FILE.read_text(encoding="utf-8").partition(f"\n[{kind}.{name}]\n")
    entry = re.compile(rf"^({field} = {{ value = )[\d_]+", re.M)
    changed = folder / f"{'-'.join(place)}-{number}.toml"
    changed.write_text(head + mark + entry.sub(rf"\g<1>{number}", rest, count=1), encoding="utf-8")
    return replace(model, profiles=changed)

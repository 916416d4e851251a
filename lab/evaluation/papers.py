# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The papers, in the order of experiments/papers.toml, and which experiments are of which."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.experiment.run import folder

NAME = "papers.toml"
OTHERS = "Other experiments"
_KINDS = {"f": 0, "t": 1}  # figures, then tables, then what a paper has in its text only


@dataclass(frozen=True)
class Group:
    """A paper with the ids of its experiments."""

    title: str
    prefix: str
    names: tuple[str, ...]


def order(name: str) -> tuple[int, list[int], str]:
    """The place of an id among those of its paper: `lpc-f2`, `lpc-f16`, `lpc-t2`, `lpc-wear`."""
    own = name.partition("-")[2]
    is_numbered = re.fullmatch(r"[ft]\d+.*", own) is not None
    numbers = [int(digits) for digits in re.findall(r"\d+", own)] if is_numbered else []
    return _KINDS[own[0]] if is_numbered else len(_KINDS), numbers, own


def groups(repo: Path, names: Iterable[str]) -> list[Group]:
    """The papers with the experiments *names*; what belongs to none is the last group."""
    path = folder(repo) / NAME
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["paper"]
        titles = {str(row["prefix"]): str(row["title"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InfraError(f"{path} does not list papers: {error}") from error
    of: dict[str, list[str]] = {prefix: [] for prefix in [*titles, ""]}
    for name in names:
        prefix = name.partition("-")[0]
        of[prefix if prefix in titles else ""].append(name)
    titles[""] = OTHERS
    return [
        Group(titles[prefix], prefix, tuple(sorted(found, key=order)))
        for prefix, found in of.items()
        if found
    ]

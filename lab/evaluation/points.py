# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every value that the papers print, by experiments/points.toml, which knows no result of ours.

    [[row]]
    id = "CMA-F2"               # of a figure, a table, or what a paper has in its text only
    experiments = ["cma-f2"]    # whose paper.toml has each point: [expected], or [[unobtainable]]
    [row.points]
    "DRAM read, 7 threads" = "15.5 GiB/s"    # the paper's words

    [[row]]
    id = "CMA-RFA4"             # without an experiment: what measures it instead,
    measured = ["lab/bench/rfa.py"]          # records of docs/figures.toml, or files
    [[row]]
    id = "CMA-BSD"
    reason = "..."              # or why it cannot be had

`grouped = true`: a point is a line of the paper's table, or a statement of several programs, and
all [expected] values whose names begin with its name, or end with it, are one point.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import InfraError
from lab.experiment.expected import Values, reasons_of
from lab.experiment.run import folder

NAME = "points.toml"
KEYS = {"id", "experiments", "grouped", "points", "measured", "reason", "unobtainable"}
SEPARATORS = ("_", ",")  # after the name of a point, in names of its values


@dataclass(frozen=True)
class PaperRow:
    """A figure or table of a paper."""

    id: str
    experiments: tuple[str, ...] = ()
    points: dict[str, str] = field(default_factory=dict)  # name, and the paper's value in words
    grouped: bool = False
    measured: tuple[str, ...] = ()  # where there is no experiment
    reason: str = ""  # why all of it cannot be had
    unobtainable: dict[str, str] = field(default_factory=dict)  # points, and why each cannot be had

    @staticmethod
    def of(given: Mapping[str, Any]) -> PaperRow:
        """From a table of points.toml; ValueError says what is wrong with it."""
        if unknown := set(given) - KEYS:
            raise ValueError(f"unknown key {min(unknown)}")
        row = PaperRow(
            str(given["id"]),
            tuple(given.get("experiments", ())),
            dict(given.get("points", {})),
            bool(given.get("grouped", False)),
            tuple(given.get("measured", ())),
            str(given.get("reason", "")),
            reasons_of(given.get("unobtainable", []), {}),
        )
        if sum(map(bool, (row.experiments, row.measured, row.reason.strip()))) != 1:
            raise ValueError(f"{row.id}: want one of experiments, measured and reason")
        if strange := set(row.unobtainable) - set(row.points):
            raise ValueError(f"{row.id}: {min(strange)} is no point")
        return row


@dataclass(frozen=True)
class Missing:
    """A point, or a row, that nothing measures; *reason* is empty if nobody says why."""

    row: str
    experiment: str
    point: str
    reason: str = ""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"{self.row}{', ' if self.point else ''}{self.point}{why}"


@dataclass(frozen=True)
class Listing:
    """experiments/points.toml."""

    rows: tuple[PaperRow, ...] = ()

    def point_of(self, experiment: str, figure: str) -> str:
        """The point that an expected value belongs to: itself, unless its row is grouped."""
        for row in self.rows:
            if row.grouped and experiment in row.experiments:
                for point in row.points:
                    if _is_of(point, figure):
                        return point
        return figure

    def missing(self, papers: Mapping[str, Values], places: Iterable[str]) -> list[Missing]:
        """Points without an [expected] value. *papers*: by experiment; *places*: what a row without
        experiments may name as what measures it."""
        there, found = set(places), []
        for row in self.rows:
            if not row.experiments:
                if row.reason:
                    found.append(Missing(row.id, "", "", row.reason))
                elif not set(row.measured) <= there:
                    found.append(Missing(row.id, "", ""))
                continue
            values = [papers[name] for name in row.experiments if name in papers]
            for point in row.points:
                if not _is_expected(row, point, values):
                    reason = row.unobtainable.get(point, "")
                    for one in values:
                        reason = one.unobtainable.get(point, reason)
                    found.append(Missing(row.id, row.experiments[0], point, reason))
        return found


def _is_of(point: str, figure: str) -> bool:
    begins = figure.startswith(tuple(f"{point}{end}" for end in SEPARATORS))
    return figure == point or begins or figure.endswith(f", {point}")


def _is_expected(row: PaperRow, point: str, values: Iterable[Values]) -> bool:
    names = (name for one in values for name in one.expected)
    return any(_is_of(point, name) if row.grouped else name == point for name in names)


def read_points(repo: Path) -> Listing:
    """experiments/points.toml of a checkout."""
    path = folder(repo) / NAME
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = tuple(PaperRow.of(row) for row in parsed["row"])
    except InfraError as error:
        raise InfraError(f"{path}: {error.message}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InfraError(f"{path} does not list points: {error}") from error
    ids = [row.id for row in rows]
    if twice := {one for one in ids if ids.count(one) > 1}:
        raise InfraError(f"{path}: {min(twice)} is listed twice")
    return Listing(rows)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the page says, without its form: records, the papers' values, and verdicts.

A verdict is that of `rem experiment` (lab/experiment/expected.py), a record's age that of
`rem docs` (lab/docs/check.py). What was never measured is here, too, and has no figures.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lab.docs.check import Age, ages
from lab.docs.records import RECORDS, Record, Table, read_record, read_table
from lab.errors import InfraError, RemError
from lab.evaluation.papers import Group, groups
from lab.evaluation.points import Listing, Missing, read_points
from lab.experiment.expected import Accepted, Expected
from lab.experiment.run import ACCEPTED, COUNTS, Paper, folder, names
from lab.result import Figure
from lab.tidy.files import project_files

# unmeasured: no record, or one of the short form, which leaves the value out.
Verdict = Literal["within", "accepted", "deviates", "unmeasured"]


@dataclass(frozen=True)
class Shown:
    """A figure that shows the reason of a deviation."""

    name: str
    figure: Figure
    is_nearest: bool


@dataclass(frozen=True)
class Value:
    """A value of a paper, and ours. *note* is the reason of a deviation, or what is wrong."""

    name: str
    expected: Expected
    verdict: Verdict
    ours: Figure | None = None
    note: str = ""
    accepted: Accepted | None = None
    shown: tuple[Shown, ...] = ()
    is_near: bool = False  # within 25 % of the paper's number
    falls_short: bool | None = None  # of an accepted deviation by a sweep: it moves by less


@dataclass(frozen=True)
class Kept:
    """A command and its record, or that it has none. *has_source*: docs/figures.toml has a source
    of this name, so that the record can be made again."""

    name: str
    command: str
    age: Age
    has_source: bool = True
    record: Record | None = None
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """An experiment. *others* are its figures for which the paper has no expected value."""

    name: str
    paper: Paper
    readme: str
    kept: Kept
    values: tuple[Value, ...]
    others: dict[str, Figure]

    @property
    def kinds(self) -> list[str]:
        """Of the figures that are compared; of all, if none is."""
        compared = [value.ours.kind for value in self.values if value.ours is not None]
        return sorted({*compared} or {figure.kind for figure in self.others.values()})

    def count(self, verdict: Verdict) -> int:
        return sum(value.verdict == verdict for value in self.values)


@dataclass(frozen=True)
class Evaluation:
    """All papers with their experiments, and the records of everything else."""

    papers: tuple[tuple[Group, tuple[Entry, ...]], ...]
    others: tuple[Kept, ...]
    listing: Listing = field(default_factory=Listing)
    missing: tuple[Missing, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        return [entry for _, entries in self.papers for entry in entries]

    def counts(self) -> dict[str, int]:
        """The figures of `rem report --json`. The values are the sum of the next four."""
        entries = self.entries
        return {
            "experiments": len(entries),
            "values": sum(len(entry.values) for entry in entries),
            "within": sum(entry.count("within") for entry in entries),
            "accepted": sum(entry.count("accepted") for entry in entries),
            "deviating": sum(entry.count("deviates") for entry in entries),
            "unmeasured": sum(entry.count("unmeasured") for entry in entries),
            "missing": sum(entry.kept.age == "missing" for entry in entries),
            "stale": sum(entry.kept.age == "stale" for entry in entries),
            "benchmarks": len(self.others),
            "benchmarks_missing": sum(kept.age == "missing" for kept in self.others),
            "benchmarks_stale": sum(kept.age == "stale" for kept in self.others),
        }


def collect(repo: Path) -> Evaluation:
    """Read everything; RemError where a record or a paper.toml is damaged."""
    table = read_table(repo)
    kept = _all_kept(repo, table)
    entries = {}
    for name in names(repo):
        source = source_of(table, name)
        missing = Kept(name, f"experiment {name}", "missing", has_source=False)
        entries[name] = _entry(repo, name, kept.pop(source) if source else missing)
    found = groups(repo, entries)
    papers = tuple((group, tuple(entries[name] for name in group.names)) for group in found)
    listing = read_points(repo)
    values = {name: entry.paper.results for name, entry in entries.items()}
    absent = listing.missing(values, places(repo, table))
    return Evaluation(papers, tuple(kept.values()), listing, tuple(absent))


def places(repo: Path, table: Table) -> set[str]:
    """What may measure a row that is no experiment: records, and files."""
    return {*table.sources, *(str(path.relative_to(repo)) for path in project_files(repo))}


def _all_kept(repo: Path, table: Table) -> dict[str, Kept]:
    """Every source, in the table's order, and records that no source has any more."""
    found = {}
    age = ages(repo, table, project_files(repo))
    for name, source in table.sources.items():
        record = read_record(repo, name)
        found[name] = Kept(name, source.command, age[name], True, record, _figures(record))
    for name in sorted(path.stem for path in (repo / RECORDS).glob("*.json")):
        record = read_record(repo, name) if name not in found else None
        if record is not None:
            found[name] = Kept(name, record.command, "stale", False, record, _figures(record))
    return found


def _figures(record: Record | None) -> dict[str, Figure]:
    return {name: Figure(**row) for name, row in record.figures.items()} if record else {}


def source_of(table: Table, name: str) -> str | None:
    """The source that runs an experiment; if several do, the one of the same name."""
    words = ["experiment", name]
    found = [one for one, source in table.sources.items() if source.words[:2] == words]
    return name if name in found else next(iter(found), None)


def is_full(command: str) -> bool:
    words = shlex.split(command)
    return "--tier=ci" not in words and ("--tier", "ci") not in zip(words, words[1:], strict=False)


def _entry(repo: Path, name: str, kept: Kept) -> Entry:
    here = folder(repo) / name
    paper = Paper.read(here / "paper.toml")
    try:
        readme = (here / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InfraError(f"{here / 'README.md'} cannot be read: {error}") from error
    try:
        values = _values(paper, kept)
    except (TypeError, ValueError) as error:
        path = repo / RECORDS / f"{kept.name}.json"
        raise RemError(f"{path} does not fit {here / 'paper.toml'}: {error}") from error
    # Those of the comparison itself are computed again.
    others = {
        key: figure
        for key, figure in kept.figures.items()
        if key not in paper.results.expected and key not in COUNTS and not key.startswith(ACCEPTED)
    }
    return Entry(name, paper, readme, kept, values, others)


def _values(paper: Paper, kept: Kept) -> tuple[Value, ...]:
    if kept.record is None:
        return unmeasured(paper)
    values = values_of(paper, kept.figures, is_full(kept.record.command))
    if kept.age != "stale":
        return values
    # What the code measures by now, and did not when the record was made, is still to be measured.
    return tuple(
        replace(value, verdict="unmeasured", note="the record is older than this value")
        if value.verdict == "deviates" and value.ours is None
        else value
        for value in values
    )


def unmeasured(paper: Paper) -> tuple[Value, ...]:
    """The values of an experiment that has no figures."""
    return tuple(Value(name, one, "unmeasured") for name, one in paper.results.expected.items())


def values_of(paper: Paper, figures: dict[str, Figure], is_full: bool) -> tuple[Value, ...]:
    """The values of a paper, and what figures say of them."""
    numbers = {name: figure.value for name, figure in figures.items()}
    compared = paper.results.compare(numbers, is_full)
    found = []
    for name, one in paper.results.expected.items():
        ours, reason = figures.get(name), paper.results.accepted.get(name)
        near = ours is not None and one.is_near(ours.value)
        if name in compared.accepted and reason is not None:
            shown = _shown(reason, one, figures)
            short = reason.falls_short(one, numbers[name], numbers) if reason.sweep else None
            found.append(
                Value(name, one, "accepted", ours, reason.reason, reason, shown, near, short)
            )
        elif name in compared.failed:
            note = compared.failed[name]
            found.append(Value(name, one, "deviates", ours, note, is_near=near))
        elif name in compared.left_out:
            found.append(Value(name, one, "unmeasured", note="the short form leaves it out"))
        else:
            found.append(Value(name, one, "within", ours, is_near=near))
    return tuple(found)


def _shown(reason: Accepted, expected: Expected, figures: dict[str, Figure]) -> tuple[Shown, ...]:
    away: dict[str, Any] = {
        name: expected.away(figures[name].value) for name in reason.sweep or reason.rules_out
    }
    nearest = min(away, key=away.__getitem__)
    return tuple(Shown(name, figures[name], name == nearest) for name in away)

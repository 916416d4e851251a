# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem docs --check`: is every figure of every document what its command printed, for this code?

Five kinds of findings:
    stale      the code that a record measures has changed since
    wrong      a mark shows something else than the record, or cannot be filled
    missing    a source was never measured, or a document shows a figure that is not in a record
    unsourced  a time, a rate, an energy or a share that is neither marked nor listed as given
    unused     a quantity that is listed as given, or a source, and no document has it any more
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.docs.marks import filled, sources_of, without_marks
from lab.docs.records import TABLE, Record, Table, measured_key, read_record, read_table
from lab.tidy.files import project_files

Age = Literal["current", "stale", "missing"]  # of a record, against the code that it measures
KINDS = ("stale", "wrong", "missing", "unsourced", "unused")
TO_MEASURE = ("stale", "missing")  # kinds that `--refresh` mends, not the author of a document
# History is no claim about the present code; format's document is generated from its headers.
NOT_CHECKED = ("CHANGELOG.md", "format/FORMAT.md")
_UNITS = r"ns|us|\N{MICRO SIGN}s|ms|s|min|minutes?|seconds?|hours?|[kMG]i?B/s|[pnum]?J|m?W|%|times"
_QUANTITY = re.compile(
    rf"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?(?:\s+to\s+\d[\d.,]*)?\s*(?:{_UNITS})(?![\w/])"
)


@dataclass(frozen=True)
class Finding:
    kind: str
    document: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.kind}: {self.what}"


def documents(repo: Path, files: list[Path]) -> list[Path]:
    """The Markdown files that are checked."""
    return [
        path
        for path in files
        if path.suffix == ".md" and str(path.relative_to(repo)) not in NOT_CHECKED
    ]


def check(repo: Path) -> list[Finding]:
    """All findings in all documents of the repository."""
    files = project_files(repo)
    table = read_table(repo)
    found = [*_stale(repo, table, files)]
    texts = {
        str(path.relative_to(repo)): path.read_text(encoding="utf-8")
        for path in documents(repo, files)
    }
    for document, text in texts.items():
        found += _marks(repo, table, document, text)
        found += _unsourced(table, document, text)
    return [*found, *_unused(table, texts)]


def ages(repo: Path, table: Table, files: list[Path]) -> dict[str, Age]:
    """Of each source's record."""
    found: dict[str, Age] = {}
    for name, source in table.sources.items():
        record = read_record(repo, name)
        key = measured_key(repo, source, files)
        if record is None:
            found[name] = "missing"
        else:
            is_current = (record.key, record.command) == (key, source.command)
            found[name] = "current" if is_current else "stale"
    return found


def stale_sources(repo: Path, table: Table, files: list[Path]) -> list[str]:
    """Names of sources whose record is older than the code, or is not there."""
    return [name for name, age in ages(repo, table, files).items() if age != "current"]


def _stale(repo: Path, table: Table, files: list[Path]) -> Iterator[Finding]:
    for name, age in ages(repo, table, files).items():
        do = f"run `./rem docs --refresh {name}`"
        if age == "missing":
            yield Finding("missing", str(TABLE), 1, f"{name} was never measured: {do}")
        elif age == "stale":
            yield Finding("stale", str(TABLE), 1, f"{name} was measured on other code: {do}")


def _marks(repo: Path, table: Table, document: str, text: str) -> Iterator[Finding]:
    def lookup(name: str) -> Record | None:
        return read_record(repo, name) if name in table.sources else None

    for name in sorted(sources_of(text) - set(table.sources)):
        yield Finding("missing", document, 1, f"{name} is not in {TABLE}")
    current, problems = filled(text, lookup)
    reported = set()
    for problem in problems:
        if problem.what not in reported:
            yield Finding("missing", document, problem.line, problem.what)
        reported.add(problem.what)
    for number, (old, new) in enumerate(
        zip(text.splitlines(), current.splitlines(), strict=False), 1
    ):
        if old != new:
            yield Finding("wrong", document, number, "not the record's: run `./rem docs --write`")
            return


def _quantities(text: str) -> Iterator[tuple[int, str]]:
    """The quantities that people wrote by hand, with their lines; a line break is a space."""
    by_hand = without_marks(text)
    for match in _QUANTITY.finditer(by_hand):
        yield by_hand.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


def _unsourced(table: Table, document: str, text: str) -> Iterator[Finding]:
    given = {one for row in table.given if row.document in {document, "*"} for one in row.texts}
    for number, quantity in _quantities(text):
        if quantity not in given:
            what = f"{quantity!r}: mark its record, or list it in {TABLE} with its source"
            yield Finding("unsourced", document, number, what)


def _unused(table: Table, texts: dict[str, str]) -> Iterator[Finding]:
    written = {name: {one for _, one in _quantities(text)} for name, text in texts.items()}
    anywhere = set().union(*written.values())
    shown = set().union(*(sources_of(text) for text in texts.values()))
    for name in sorted(set(table.sources) - shown):
        yield Finding("unused", str(TABLE), 1, f"no document shows a figure of {name}")
    for row in table.given:
        here = anywhere if row.document == "*" else written.get(row.document, set())
        for one in row.texts:
            if one not in here:
                what = f"{one!r} is given ({row.source}), but not in {row.document}"
                yield Finding("unused", str(TABLE), 1, what)

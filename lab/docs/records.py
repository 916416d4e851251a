# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where the figures of documents come from.

    docs/figures.toml        [source.NAME]: a command that prints figures, and what it measures
                             [rooms]: names for lists of files and folders that many measure
                             [[given]]: quantities that nothing here measures
    docs/figures/NAME.json   what the command printed, and the key of that code at the time

Only `rem docs --refresh` writes the records: it runs the command.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from lab.docs.code_key import code_key
from lab.errors import InfraError, RemError
from lab.result import Kind

TABLE = Path("docs/figures.toml")
RECORDS = Path("docs/figures")
KINDS = get_args(Kind)


@dataclass(frozen=True)
class Source:
    """A command that figures come from: words after `./rem`, without --json.

    *output*: documents show what it prints, so its record keeps that, too. *misses*: figures whose
    aim is known not to be reached, each with its reason; any other failure is none to record.
    *uses*: sources whose records the command reads: they have to be of today's code.
    """

    name: str
    command: str
    measures: tuple[str, ...]
    output: bool = False
    misses: dict[str, str] = field(default_factory=dict)
    uses: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return [*shlex.split(self.command), "--json"]


@dataclass(frozen=True)
class Given:
    """Quantities in a document (`*`: in any) that nothing here measures: limits, a paper's values.

    *texts* are the quantities as they are written there; *source* is where all of them come from.
    """

    document: str
    texts: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Table:
    """docs/figures.toml."""

    sources: dict[str, Source]
    given: tuple[Given, ...]


@dataclass(frozen=True)
class Record:
    """docs/figures/NAME.json. *figures*: name to {value, unit, kind}; *lines*: what was printed."""

    command: str
    key: str
    figures: dict[str, dict[str, Any]]
    lines: tuple[str, ...] = ()

    def as_json(self) -> str:
        return json.dumps(vars(self) | {"lines": list(self.lines)}, indent=1) + "\n"


def read_table(repo: Path) -> Table:
    """Parse docs/figures.toml; RemError where it is malformed."""
    try:
        text = (repo / TABLE).read_text(encoding="utf-8")
        parsed = tomllib.loads(text)
        rooms = parsed.get("rooms", {})
        sources = {
            name: Source(
                name,
                row["command"],
                _places(rooms, row),
                row.get("output", False),
                dict(row.get("misses", {})),
                tuple(row.get("uses", ())),
            )
            for name, row in parsed.get("source", {}).items()
        }
        for source in sources.values():
            for used in source.uses:
                sources[used]  # or it is malformed
        given = tuple(
            Given(row["document"], tuple(row["texts"]), row["source"])
            for row in parsed.get("given", [])
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise RemError(f"{TABLE} is malformed: {error}") from error
    return Table(sources, given)


def _places(rooms: dict[str, list[str]], row: dict[str, Any]) -> tuple[str, ...]:
    """Files and folders that a source measures; a name in [rooms] stands for its own list."""
    return tuple(place for one in row["measures"] for place in rooms.get(one, [one]))


def read_record(repo: Path, name: str) -> Record | None:
    """The record of a source, or None if it was never measured."""
    path = repo / RECORDS / f"{name}.json"
    if not path.exists():
        return None
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        for name, figure in row["figures"].items():
            _check_figure(name, figure)
        for text in (row["command"], row["key"], *row["lines"]):
            if not isinstance(text, str):
                raise TypeError(f"{text!r} is no text")
        return Record(row["command"], row["key"], row["figures"], tuple(row["lines"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RemError(
            f"{path} is malformed: {error}: run `./rem docs --refresh {name}`"
        ) from error


def _check_figure(name: str, figure: Any) -> None:
    """ValueError if it is not what lab/result.py prints."""
    has_parts = isinstance(figure, dict) and figure.keys() == {"value", "unit", "kind"}
    if not has_parts or not isinstance(figure["value"], int | float | str):
        raise ValueError(f"figure {name!r} is not a value with unit and kind")
    if figure["kind"] not in KINDS or not isinstance(figure["unit"], str):
        raise ValueError(f"figure {name!r} has no kind of {', '.join(KINDS)}, or no unit")


def write_record(repo: Path, source: Source, record: Record) -> None:
    """Replace the record of a source."""
    path = repo / RECORDS / f"{source.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.as_json(), encoding="utf-8")


def measured_key(repo: Path, source: Source, files: list[Path]) -> str:
    """The key of the code that a source measures, of the repository's *files*."""
    below = []
    names = [(str(path), path) for path in files]  # Path.is_relative_to() parses both again
    for place in source.measures:
        at = str(repo / place)
        found = [path for name, path in names if name == at or name.startswith(f"{at}/")]
        if not found:
            raise InfraError(f"{TABLE}: {source.name} measures {place}, which does not exist")
        below += found
    return code_key(repo, below)

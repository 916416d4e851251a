# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All rules over all files: `rem tidy` prints one line per finding, `FILE:LINE: what`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.tidy import binaries, changelog, cycles, lengths, licences, parts, prose, rooms, units
from lab.tidy.files import project_files, text_of
from lab.tidy.finding import Finding


def check_file(name: str, text: str) -> Iterator[Finding]:
    """The rules that need one file only."""
    lines = text.splitlines()
    yield from licences.check_licence(name, lines)
    yield from licences.check_machine_paths(name, lines)
    yield from lengths.check_lengths(name, text)
    yield from units.check_units(name, text)
    yield from parts.check_parts(name, text)
    yield from prose.check_prose(name, text)


def tidy(repo: Path) -> list[Finding]:
    """All findings of all rules."""
    found: list[Finding] = []
    texts: dict[str, str] = {}
    for path in project_files(repo):
        name, data = str(path.relative_to(repo)), path.read_bytes()
        found += binaries.check_binary(name, data)
        text = text_of(data)
        if text is not None:
            texts[name] = text
            found += check_file(name, text)
    if changelog.NAME in texts:
        found += changelog.check_changelog(texts[changelog.NAME])
    else:
        found.append(Finding(changelog.NAME, 1, "missing: Keep a Changelog, with [Unreleased]"))
    table = rooms.Rooms.parse(texts[rooms.TABLE])
    found += rooms.check_rooms(table, texts)
    found += cycles.check_cycles(table, texts)
    shown = texts[rooms.SHOWN_IN]
    if rooms.with_table(shown, table) != shown or rooms.BEGIN not in shown:
        found.append(Finding(rooms.SHOWN_IN, 1, "its table of rooms is old: run `./rem fmt`"))
    return found


def counts(found: list[Finding]) -> dict[str, int]:
    """The figures of `rem tidy --json`."""
    return {
        "findings": len(found),
        "edge_exceptions": sum(finding.rule == rooms.RULE for finding in found),
        "binaries": sum(finding.rule == binaries.RULE for finding in found),
    }

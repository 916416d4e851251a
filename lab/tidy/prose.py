# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Markdown is wrapped, and prose has no idioms of an English of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.tidy.finding import Finding

COLUMNS_MAX = 100
LONG_WORD = 90  # an address, which has no place to be wrapped
NO_PROSE = re.compile(r"^LICENSES/|\.(patch|lock|json|jsonl|txt)$|^lab/tidy/prose\.py$")

_FENCE = re.compile(r"^ *(?:```|~~~)")
_ITEM = re.compile(r"^ *(?:[-*+]|\d+\.) ")
# What the project's documents call otherwise, and how.
IDIOMS = {
    r"anew": "again; to make anew: rebuild",
    r"who(?:so)?ever": "name who, or use the passive",
    r"(?:is|are|was|were) had": "acquire, get",
    r"a look": "check, inspect",
    r"gone on (?:from|with)": "resume, continue",
    r"(?:is|are) asked for": "request, or an `if`",
    r"said so": "report, state",
}
_IDIOMS = {re.compile(rf"\b{idiom}\b", re.IGNORECASE): use for idiom, use in IDIOMS.items()}


def check_prose(name: str, text: str) -> Iterator[Finding]:
    if name.endswith(".md"):
        yield from _long_lines(name, text)
    if not NO_PROSE.search(name):
        yield from _idioms(name, text)


def _long_lines(name: str, text: str) -> Iterator[Finding]:
    """Lines that could be wrapped: not those of tables, headings and code, nor of a long word, nor
    those with figures, whose width changes when `rem docs` fills them."""
    for number, line in _prose_lines(text):
        whole = line.startswith(("|", "#")) or "<!--fig" in line
        if len(line) > COLUMNS_MAX and not whole and max(map(len, line.split())) < LONG_WORD:
            yield Finding(name, number, f"{len(line)} columns: wrap at {COLUMNS_MAX}")


def _prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside code blocks. Text that is indented by four is code behind a blank line, unless
    a list is open."""
    fenced = indented = listed = False
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            if _ITEM.match(line):
                listed = True
            elif line and not line.startswith(" "):
                listed = False
            deep = line.startswith((" " * 4, "\t"))
            indented = deep and not listed and (indented or not before.strip())
            if not indented:
                yield number, line
        before = line


def _idioms(name: str, text: str) -> Iterator[Finding]:
    for pattern, use in _IDIOMS.items():
        for found in pattern.finditer(text):
            number = text.count("\n", 0, found.start()) + 1
            yield Finding(name, number, f"{found[0]!r}: {use}")

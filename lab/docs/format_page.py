# SPDX-License-Identifier: Apache-2.0 OR MIT
"""format/FORMAT.md: the tables of every byte that outlives power, made from the headers.

`rem fmt` writes it; a test compares. Places and sizes are those of the views (lab/format.py), which
other tests compare with the compiler's; words are the headers' comments. A comment that gives a
field another offset than it has ends in an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lab import format as fmt

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT -->
<!-- Made by `rem fmt` from the headers of this folder; not edited by hand. -->
# The formats, field by field

All numbers are little-endian; offsets are in bytes. What the fields mean together, and who writes
what when, is in the headers' own comments and in `../ARCHITECTURE.md`.
"""

_COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
_STRUCT = re.compile(rf"(?:^({_COMMENT})\n)?^struct (\w+) \{{\n(.*?)^\}};", re.M | re.S)
_FIELD = re.compile(
    rf"^\s*(?:struct )?(?P<type>\w+) (?P<name>\w+)(?P<count>\[\w+\])?;[ \t]*(?P<say>{_COMMENT})?",
    re.M,
)
_ENUM = re.compile(rf"(?:^({_COMMENT})\n)?^enum (\w+) \{{\n(.*?)^\}};", re.M | re.S)
_MEMBER = re.compile(
    rf"(?P<above>{_COMMENT}\s*)?^\s*(?P<name>\w+)\s*=\s*\w+,[ \t]*(?P<say>{_COMMENT})?", re.M
)
_DEFINE = re.compile(rf"^#define (\w+) (\S+)[ \t]*({_COMMENT})?$", re.M)


@dataclass(frozen=True)
class Row:
    """One field of a struct."""

    offset: int
    size_bytes: int
    type: str
    name: str
    says: str


def words(comment: str | None) -> str:
    """A comment's text, its lines joined."""
    if not comment:
        return ""
    lines = (re.sub(r"^\s*\*? ?", "", line) for line in comment.strip()[2:-2].splitlines())
    return " ".join(" ".join(lines).split())


def rows(struct: str, body: str) -> list[Row]:
    """The fields of a struct. The views give the places; the comments must agree with them."""
    fields = getattr(fmt.VIEWS, struct).fields
    found = list(_FIELD.finditer(body))
    if [field["name"] for field in found] != list(fields):
        raise fmt.FormatError(f"struct {struct}: not every field was read: {list(fields)}")
    places = [int(fields[field["name"]].offset) for field in found] + [fmt.size_of(struct)]
    table = []
    for n, field in enumerate(found):
        said = re.match(r"(\d+)\s*(.*)", words(field["say"]), re.S)
        if said is None or int(said[1]) != places[n]:
            raise fmt.FormatError(
                f"struct {struct}: the comment of {field['name']} wants its offset, {places[n]}"
            )
        kind = field["type"].removeprefix("rem_") if field["type"][:5] == "rem_u" else field["type"]
        kind += field["count"] or ""
        table.append(Row(places[n], places[n + 1] - places[n], kind, field["name"], said[2]))
    return table


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _prose(comment: str | None, name: str) -> Iterator[str]:
    """Paragraphs of a comment; what it says of a single field is one of its own."""
    for part in re.split(r"\n[\s*]*\n|\n(?=\s*\*\s*@\w+:)", (comment or "").strip()[2:-2]):
        text = re.sub(rf"^(?:struct|enum) {name} - ", "", words(f"/*{part}*/"))
        if text:
            yield _cell(re.sub(r"@(\w+)", r"`\1`", text))
            yield ""


def _structs(text: str) -> Iterator[str]:
    for comment, name, body in _STRUCT.findall(text):
        yield f"### struct {name}: {fmt.size_of(name)} bytes"
        yield ""
        yield from _prose(comment, name)
        yield "| offset | bytes | field | type | |"
        yield "|---:|---:|---|---|---|"
        for row in rows(name, body):
            place = f"{row.offset} | {row.size_bytes}"
            yield f"| {place} | `{row.name}` | {row.type} | {_cell(row.says)} |"
        yield ""


def _enums(text: str) -> Iterator[str]:
    for comment, name, body in _ENUM.findall(text):
        yield f"### enum {name}"
        yield ""
        yield from _prose(comment, name)
        yield "| number | name | |"
        yield "|---:|---|---|"
        members = getattr(fmt.VIEWS, name).__members__
        found = {m["name"]: words(m["say"]) or words(m["above"]) for m in _MEMBER.finditer(body)}
        if list(found) != list(members):
            raise fmt.FormatError(f"enum {name}: not every member was read: {list(members)}")
        for member, says in found.items():
            says = re.sub(r"@(\w+)", r"`\1`", says)
            yield f"| {int(members[member])} | `{member}` | {_cell(says)} |"
        yield ""


def _constants(text: str) -> Iterator[str]:
    found = _DEFINE.findall(text)
    if found:
        yield "### Constants"
        yield ""
        yield "| name | value | |"
        yield "|---|---|---|"
        for name, value, comment in found:
            yield f"| `{name}` | `{value}` | {_cell(words(comment))} |"
        yield ""


def _drawing(text: str) -> Iterator[str]:
    """The header's own tables of what is where, taken over as they stand."""
    for drawn in re.findall(r"^ \*   offset +bytes .*\n(?: \*   .*\n)+", text, re.M):
        yield "```"
        yield from (line[5:].rstrip() for line in drawn.splitlines())
        yield "```"
        yield ""


def format_page() -> str:
    """The whole page."""
    lines = [HEAD]
    for header in fmt.HEADERS:
        text = (fmt.HEADER_DIR / header).read_text(encoding="utf-8")
        lines += [f"## {header}", "", *_drawing(text), *_structs(text), *_enums(text)]
        lines += _constants(text)
    return "\n".join(lines).rstrip() + "\n"

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Marks in Markdown: which figure of which record stands where.

    <!--fig stop-go.stop_max_ns ms.2-->2.96 ms<!--/fig-->     a number
    <!--fig lpc-f17."mean share, in order" .2-->0.53<!--/fig-->   one whose name is no single word
    <!--output demo 10-->                                      lines that the command printed:
    ```                                                        the code block behind it
    ```

The form after the name is a unit to convert to and the number of decimals, each optional. The
number behind the name of an output is how many of its first lines are shown; all without it. A mark
stands in one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lab.docs.records import Record

# A unit of a form: what a figure's own value is divided by, by the figure's unit.
_PER_UNIT = {
    "ns": {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    "us": {"us": 1.0, "ms": 1e3, "s": 1e6},
    "ms": {"ms": 1.0, "s": 1e3},
    "s": {"s": 1.0, "min": 60.0},
    "min": {"min": 1.0},
    "pJ": {"uJ": 1e6, "mJ": 1e9, "J": 1e12},
    "uJ": {"uJ": 1.0, "mJ": 1e3, "J": 1e6},
    "mW": {"mW": 1.0, "W": 1e3},
    "cycles": {"M": 1e6, "G": 1e9},
    "%": {"%": 1.0},
    **dict.fromkeys(("1", "ratio", "share", "of ideal", "of writes"), {"%": 0.01}),
}
_MARK = re.compile(
    r"""<!--fig ([\w-]+)\.(\w+|"[^"\n]+")(?: ([\w%.]+))?-->(.*?)<!--/fig-->""", re.DOTALL
)
_OUTPUT = re.compile(
    r"(<!--output ([\w-]+)(?: (\d+))?-->\n+```\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE
)
_BEGIN = re.compile(r"<!--(?:fig|output)\b[^\n]*?-->")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
_FORM = re.compile(r"([A-Za-z%]+)?(?:\.(\d+))?")

Lookup = Callable[[str], Record | None]


@dataclass(frozen=True)
class Problem:
    """A mark that cannot be filled: *line* counts from 1."""

    line: int
    what: str


def shown(value: object, unit: str, form: str) -> str:
    """A figure in a form: `ms.2` of 2,960,000 ns is "2.96 ms". ValueError if the form is wrong."""
    match = _FORM.fullmatch(form)
    if match is None:
        raise ValueError(f"form {form!r}: want UNIT.DECIMALS")
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return str(value)
    decimals = int(match[2] or 0)
    if match[1] is None:
        return f"{value:,.{decimals}f}"
    divisor = _PER_UNIT.get(unit, {}).get(match[1])
    if divisor is None:
        raise ValueError(f"form {form!r}: a figure in {unit!r} cannot be shown in {match[1]}")
    gap = "\N{NO-BREAK SPACE}" if match[1] != "%" else ""
    return f"{value / divisor:,.{decimals}f}{gap}{match[1]}"


def filled(text: str, lookup: Lookup) -> tuple[str, list[Problem]]:
    """The document with every mark filled from its record, and the marks that cannot be."""
    problems: list[Problem] = []

    def fail(found: re.Match[str], what: str) -> str:
        problems.append(Problem(text.count("\n", 0, found.start()) + 1, what))
        return found[0]

    def number(found: re.Match[str]) -> str:
        name, figure, form = found[1], found[2].strip('"'), found[3] or ""
        record = lookup(name)
        if record is None:
            return fail(found, f"no record of {name}: run `./rem docs --refresh {name}`")
        if figure not in record.figures:
            return fail(found, f"{name} has no figure {figure}")
        row = record.figures[figure]
        try:
            text_ = shown(row["value"], row["unit"], form)
        except ValueError as error:
            return fail(found, str(error))
        return f"<!--fig {name}.{found[2]}{' ' + form if form else ''}-->{text_}<!--/fig-->"

    def output(found: re.Match[str]) -> str:
        record = lookup(found[2])
        if record is None:
            return fail(found, f"no record of {found[2]}: run `./rem docs --refresh {found[2]}`")
        lines = record.lines[: int(found[3])] if found[3] else record.lines
        return found[1] + "".join(f"{line}\n" for line in lines) + found[5]

    for found in _BEGIN.finditer(_OUTPUT.sub(_blank, _MARK.sub(_blank, text))):
        fail(found, f"no mark of this form: {found[0]}")
    return _OUTPUT.sub(output, _MARK.sub(number, text)), problems


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def sources_of(text: str) -> set[str]:
    """Names of the records that a document shows."""
    return {found[1] for found in _MARK.finditer(text)} | {
        found[2] for found in _OUTPUT.finditer(text)
    }


def values_only(text: str) -> str:
    """The document without the comments of its marks: figures and output stay as they are."""
    return _BEGIN.sub("", text.replace("<!--/fig-->", ""))


def without_marks(text: str) -> str:
    """The document with marks, code and comments blanked, lines kept: what people wrote by hand."""

    # Code before marks: a mark at the beginning of a line leaves blanks, which are not code.
    for pattern in (_FENCED, _INDENTED, _MARK):
        text = pattern.sub(_blank, text)
    return re.sub(r"`[^`\n]*`|<!--.*?-->|\]\([^)\n]*\)", _blank, text, flags=re.DOTALL)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tables of the page: each cell says what it is, so that a narrow screen can show a row as a card.

On a narrow screen rows and cells are no table for a browser any more, so each has its role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape


@dataclass(frozen=True)
class Cell:
    """*html* is HTML already. Rows are sorted by *order*; by the text if there is none."""

    html: str
    order: float | None = None
    css: str = ""


@dataclass(frozen=True)
class Row:
    """*facts* are what the filters know of the row; *detail* is HTML below it, as wide as it."""

    cells: Sequence[Cell]
    facts: dict[str, str] = field(default_factory=dict)
    detail: str = ""


def text(value: str, css: str = "") -> Cell:
    return Cell(escape(value), css=css)


def table(
    columns: Sequence[str], rows: Sequence[Row], caption: str, name: str = "", css: str = ""
) -> str:
    """Numbers stand in cells of the class n. A table with a *name* can be sorted and filtered."""
    numbers = [cell.css for cell in rows[0].cells] if rows else [""] * len(columns)
    heads = "".join(
        f"<th scope=col role=columnheader{' class=n' if css == 'n' else ''}>{escape(column)}</th>"
        for column, css in zip(columns, numbers, strict=True)
    )
    body = "".join(_row(columns, row) for row in rows)
    named = f' id="{escape(name)}"' if name else ""
    classes = f"cards {css}".rstrip()
    return (
        f'<table role=table class="{classes}"{named}>'
        f"<caption>{escape(caption)}</caption>"
        f"<thead role=rowgroup><tr role=row>{heads}</tr></thead>"
        f"<tbody role=rowgroup>{body}</tbody></table>"
    )


def _row(columns: Sequence[str], row: Row) -> str:
    facts = "".join(
        f' data-{escape(key)}="{escape(fact)}"' for key, fact in sorted(row.facts.items())
    )
    cells = "".join(
        _cell(column, cell, is_head=place == 0)
        for place, (column, cell) in enumerate(zip(columns, row.cells, strict=True))
    )
    below = (
        f"<tr role=row class=detail><td role=cell colspan={len(columns)}>{row.detail}</td></tr>"
        if row.detail
        else ""
    )
    return f"<tr role=row{facts}>{cells}</tr>{below}"


def _cell(column: str, cell: Cell, is_head: bool) -> str:
    tag, role = ("th scope=row", "rowheader") if is_head else ("td", "cell")
    order = "" if cell.order is None else f' data-order="{cell.order!r}"'
    css = f' class="{cell.css}"' if cell.css else ""
    label = "" if is_head else f' data-label="{escape(column)}"'
    return f"<{tag} role={role}{css}{label}{order}>{cell.html}</{tag.split()[0]}>"

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The words of the page that several of its parts use."""

from __future__ import annotations

from html import escape

from lab.docs.check import Age
from lab.evaluation.collect import Kept, Value, Verdict
from lab.evaluation.quantity import number, quantity
from lab.evaluation.tables import Cell, Row, text
from lab.result import Figure

VERDICTS: dict[Verdict, tuple[str, str]] = {
    "within": ("✓", "within"),
    "accepted": ("≈", "accepted"),
    "deviates": ("✗", "not within"),
    "unmeasured": ("–", "not measured"),
}
AGES: dict[Age, str] = {"current": "current", "stale": "stale", "missing": "never measured"}
FIGURE_COLUMNS = ("Figure", "Value", "Kind")


def verdict(value: Value) -> Cell:
    """As a word; the sign before it is for the eye only."""
    sign, word = VERDICTS[value.verdict]
    html = f'<span><span aria-hidden="true">{sign}</span>&nbsp;{word}</span>'
    return Cell(html, css=value.verdict)


def age(kept: Kept) -> Cell:
    return text(AGES[kept.age], css=kept.age)


def count(value: int) -> Cell:
    return Cell(number(value) if value else "", value, "n")


def numeric(figure: Figure | None) -> float | None:
    """What a column of quantities is sorted by."""
    if figure is None or isinstance(figure.value, str):
        return None
    return float(figure.value)


def figure_rows(figures: dict[str, Figure]) -> list[Row]:
    """All of one kind stand together."""
    by_kind = sorted(figures.items(), key=lambda item: item[1].kind)
    return [
        Row(
            (
                text(name),
                Cell(escape(quantity(figure.value, figure.unit)), numeric(figure), "n"),
                text(figure.kind),
            )
        )
        for name, figure in by_kind
    ]


def run_again(kept: Kept) -> str:
    """The commands that measure it again, each to be copied."""
    lines = [(f"./rem {kept.command}", "measures it and prints its figures")]
    if kept.has_source:
        lines.append((f"./rem docs --refresh {kept.name}", "and keeps them as the record"))
    items = "".join(
        f"<li><code class=command>{escape(command)}</code> <span class=what>{what}</span></li>"
        for command, what in lines
    )
    return f"<ul class=run>{items}</ul>"


def flag(kept: Kept) -> str:
    """Why a record is to be doubted, or that there is none; empty for a current one."""
    if kept.age == "stale":
        what = (
            "it was measured on other code than the present, or by another command"
            if kept.has_source
            else "docs/figures.toml has no command of its name any more"
        )
        return f'<p class="flag stale"><strong>Stale record:</strong> {what}.</p>'
    if kept.age == "missing":
        what = (
            "there is no record of this command"
            if kept.has_source
            else "docs/figures.toml names no command that would keep a record of it"
        )
        return f'<p class="flag missing"><strong>Never measured:</strong> {what}.</p>'
    return ""

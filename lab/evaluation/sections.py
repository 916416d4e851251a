# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The sections of the page: one for each experiment, and one for each other record."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from lab.evaluation import readme
from lab.evaluation.collect import Entry, Kept, Shown, Value
from lab.evaluation.pictures import values_picture
from lab.evaluation.quantity import deviation, number, paper_value, quantity, tolerance, unit_of
from lab.evaluation.tables import Cell, Row, table, text
from lab.evaluation.words import (
    AGES,
    FIGURE_COLUMNS,
    age,
    figure_rows,
    flag,
    numeric,
    run_again,
    verdict,
)
from lab.experiment.run import PROVISIONAL

VALUE_COLUMNS = ("Figure", "Ours", "Paper", "Tolerance", "Deviation", "Kind", "Verdict")


def value_cells(value: Value) -> list[Cell]:
    """A line of VALUE_COLUMNS."""
    unit, ours = unit_of(value.name, value.ours), value.ours
    percent = value.expected.deviation_percent(ours.value) if ours is not None else None
    return [
        text(value.name, "name"),
        Cell(escape(quantity(ours.value, unit)) if ours else "", numeric(ours), "n"),
        text(paper_value(value.expected, unit), "n"),
        text(tolerance(value.expected), "n"),
        Cell(deviation(value.expected, ours), percent, "n"),
        text(ours.kind if ours else ""),
        verdict(value),
    ]


def _detail(value: Value) -> str:
    """The reason of a deviation with the figures that show it, or what is wrong."""
    if value.accepted is None:
        return f"<p>{escape(value.note)}.</p>" if value.note else ""
    what = (
        "The mechanism is changed; at least one figure has to be nearer to the paper's value:"
        if value.accepted.sweep
        else "Everything else is changed; no figure may reach the paper's value:"
    )
    items = "".join(_shown(value, shown, bool(value.accepted.sweep)) for shown in value.shown)
    return (
        f"<p><strong>Accepted because</strong> {escape(value.note)}.</p>"
        f"<p class=note>{what}</p><ul class=shown>{items}</ul>"
    )


def _shown(value: Value, shown: Shown, is_nearer: bool) -> str:
    """A figure of the sweep; the nearest stands out where one has to be nearer."""
    css = " class=nearest" if is_nearer and shown.is_nearest else ""
    what, kind = quantity(shown.figure.value, shown.figure.unit), shown.figure.kind
    if value.ours is None or value.ours.kind != kind:
        what = f"{what} ({kind})"
    return f"<li{css}><span>{escape(shown.name)}</span><span>{escape(what)}</span></li>"


def _flat(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """[values] of paper.toml, line by line."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}: ")
        else:
            shown = value if isinstance(value, list) else [value]
            numbers = (isinstance(v, int | float) and not isinstance(v, bool) for v in shown)
            words = [
                number(v) if is_number else str(v)
                for v, is_number in zip(shown, numbers, strict=True)
            ]
            yield f"{above}{name}", ", ".join(words)


def _given(entry: Entry) -> str:
    """What the paper gives apart from what is compared by name."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(shown)}</dd>"
        for name, shown in _flat(entry.paper.values)
    )
    if not rows:
        return ""
    if entry.values:
        head = "Values and set-up of the paper, as the experiment has them"
        return f"<details><summary>{head}</summary><dl class=given>{rows}</dl></details>"
    return (
        "<h4>Values and set-up of the paper</h4>"
        "<p class=note>None is compared by name. The experiment checks statements about them, and a"
        f" record is kept only if all hold.</p><dl class=given>{rows}</dl>"
    )


def _others(entry: Entry) -> str:
    if not entry.others:
        return ""
    title = f"{number(len(entry.others))} figures with no paper value"
    listed = table(FIGURE_COLUMNS, figure_rows(entry.others), f"{entry.name}: {title}")
    return f"<details><summary>{title}</summary>{listed}</details>"


def _figure(drawn: str, caption: str, css: str = "") -> str:
    if not drawn:
        return ""
    return (
        f"<figure class={css or 'ratios'} tabindex=0>{drawn}"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def experiment(entry: Entry, own_picture: str) -> str:
    """The section of an experiment."""
    rows = [Row(value_cells(value), detail=_detail(value)) for value in entry.values]
    caption = f"{entry.name}: ours beside the paper's values"
    values = table(VALUE_COLUMNS, rows, caption, css="values") if rows else ""
    record = f"record {AGES[entry.kept.age]}" if entry.kept.record else AGES["missing"]
    meta = [entry.paper.source, ", ".join(entry.kinds), record]
    ratios = _figure(
        values_picture(entry),
        "Ours over the paper's value, over the middle of its range or over its limit.",
    )
    own = _figure(own_picture, "The experiment's own picture, of the results in the record.", "own")
    provisional = f"<p class=flag>{PROVISIONAL}</p>" if entry.paper.provisional else ""
    asked = readme.question(entry.readme)
    return f"""<section id="{escape(entry.name)}">
<h3><code>{escape(entry.name)}</code> {escape(entry.paper.title)}</h3>
<p class=meta>{escape(" · ".join(part for part in meta if part))}</p>
{f"<p>{asked}</p>" if asked else ""}{flag(entry.kept)}{provisional}
{values}{ratios}{own}{_given(entry)}{_others(entry)}
<details class=readme><summary>Method, verdict and differences</summary>
<div class=readme>{readme.rest(entry.readme)}</div></details>
{run_again(entry.kept)}
{_key(entry.kept)}
</section>
"""


def other(kept: Kept) -> str:
    """The section of a benchmark, a campaign or a demonstration."""
    name, figures = kept.name, ""
    if kept.figures:
        title = f"{number(len(kept.figures))} figures"
        listed = table(FIGURE_COLUMNS, figure_rows(kept.figures), f"{name}: {title}")
        figures = f"<details><summary>{title}</summary>{listed}</details>"
    kinds = ", ".join(sorted({figure.kind for figure in kept.figures.values()}))
    meta = " · ".join(part for part in (kinds, f"{AGES[kept.age]}") if part)
    return f"""<section id="record-{escape(name)}">
<h3><code>{escape(name)}</code></h3>
<p class=meta>{escape(meta)}</p>{flag(kept)}{figures}{run_again(kept)}{_key(kept)}
</section>
"""


def _key(kept: Kept) -> str:
    if kept.record is None:
        return ""
    return (
        f"<p class=meta>Measured on code with the key <code>{escape(kept.record.key)}</code>.</p>"
    )


def other_row(kept: Kept) -> Row:
    """Of the table of records that are no experiments."""
    link = f'<a href="#record-{escape(kept.name)}">{escape(kept.name)}</a>'
    command = f"<code>./rem {escape(kept.command)}</code>"
    kinds = ", ".join(sorted({figure.kind for figure in kept.figures.values()}))
    figures = len(kept.figures)
    return Row(
        (Cell(link), Cell(command), text(kinds), Cell(str(figures), figures, "n"), age(kept))
    )

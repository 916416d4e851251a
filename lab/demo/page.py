# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of `rem demo`: one self-contained HTML file with story, checks, figures and picture."""

from __future__ import annotations

from html import escape

from lab.demo.outcome import Outcome
from lab.report.html_style import STYLE
from lab.result import Figure


def _items(lines: tuple[str, ...] | list[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _figure_row(name: str, figure: Figure) -> str:
    value, unit = figure.value, figure.unit
    if unit == "ns" and isinstance(value, int | float):
        value, unit = f"{value / 1e6:,.3f}", "ms"
    elif isinstance(value, int):
        value = f"{value:,}"
    cells = f"<td>{escape(name)}</td><td class=n>{escape(str(value))}</td>"
    return f"<tr>{cells}<td>{escape(unit)}</td><td>{escape(figure.kind)}</td></tr>"


def page(outcome: Outcome, picture_svg: str | None) -> str:
    """The whole page; its heading is the outcome of this run."""
    title = escape(outcome.heading())
    checks = "".join(
        f"<tr><td class={'ok' if check.ok else 'bad'}>{'passed' if check.ok else 'FAILED'}</td>"
        f"<td>{escape(check.name)}</td><td>{escape(check.detail)}</td></tr>"
        for check in outcome.checks
    )
    figures = "".join(_figure_row(*item) for item in outcome.result.figures.items())
    picture = picture_svg or "<p class=note>The record has no timeline of a Stop.</p>"
    return f"""<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>{title}</title><style>{STYLE}</style>
<h1>{title}</h1>
<ol>{_items(outcome.story)}</ol>
<h2>Stop and Go</h2>{picture}
<p class=note>Times by the machine's own counter, from its record. The last flush and the
commit come after the record is complete, so they cannot be in it.</p>
<h2>Checks</h2><table>{checks}</table>
<h2>Figures</h2><table><tr><th>figure<th>value<th>unit<th>kind</tr>{figures}</table>
<h2>What this shows, and what it does not</h2>
<p>Lost in the cut:</p><ul>{_items(outcome.modelled())}</ul>
<p>Not modelled:</p><ul>{_items(outcome.not_modelled())}</ul>
</html>
"""

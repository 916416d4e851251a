# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of `rem demo`: one self-contained HTML file with story, checks, figures and picture."""

from __future__ import annotations

from html import escape

from lab.demo.outcome import Outcome
from lab.result import Figure

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { text-align: left; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid #ddd; vertical-align: top } td.n { text-align: right;
  font-variant-numeric: tabular-nums }
.ok { color: #00704a } .bad { color: #b00020; font-weight: bold } svg { width: 100%; height: auto }
.note { color: #555 }
"""


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
    """The whole page."""
    ok = outcome.result.ok
    title = "The power failed, and everything went on" if ok else "A promise was broken"
    checks = "".join(
        f"<tr><td class={'ok' if check.ok else 'bad'}>{'kept' if check.ok else 'BROKEN'}</td>"
        f"<td>{escape(check.name)}</td><td>{escape(check.detail)}</td></tr>"
        for check in outcome.checks
    )
    figures = "".join(_figure_row(*item) for item in outcome.result.figures.items())
    picture = picture_svg or "<p class=note>The record holds no timeline of a Stop.</p>"
    return f"""<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>{title}</title><style>{STYLE}</style>
<h1>{title}</h1>
<ol>{_items(outcome.story)}</ol>
<h2>Stop and Go</h2>{picture}
<p class=note>Times by the machine's own counter, from its record. What comes after the last phase
of Stop (the flush and the commit) cannot be in a record that it makes valid.</p>
<h2>Promises</h2><table>{checks}</table>
<h2>Figures</h2><table><tr><th>figure<th>value<th>unit<th>kind</tr>{figures}</table>
<h2>What this shows, and what it does not</h2>
<p>Lost in the cut, and brought back:</p><ul>{_items(outcome.modelled())}</ul>
<p>Not modelled:</p><ul>{_items(outcome.not_modelled())}</ul>
</html>
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The report of a campaign: one self-contained HTML page.

A map of cut position against outcome: each cell counts images, a click shows the command that
replays one of them. Below are places and outcomes, and violations with their commands.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from lab.campaign.figures import PLACES, Mix, mix, table
from lab.campaign.shrink import command
from lab.campaign.store import Store
from lab.report.html_style import STYLE
from lab.result import Result

COLUMNS = 120
ROW_PX, CELL_PX = 16, 8
OUTCOME_COLORS = {"resumed": "#00704a", "cold": "#4a6fa5", "violation": "#b00020"}
OUTCOMES = ("resumed", "cold", "violation")

SCRIPT = """
document.querySelectorAll('rect[data-command]').forEach(cell => {
  cell.addEventListener('click', () => {
    document.getElementById('command').textContent = cell.dataset.command;
    document.getElementById('about').textContent = cell.dataset.about;
  });
});
"""


def _cells(store: Store, recording: str) -> tuple[list[str], int]:
    last = store.scalar("SELECT max(event) FROM image WHERE recording = ?", recording) or 1
    query = """SELECT verdict, event * ? / ? AS cell, count(*), min(event), place, reason, eviction,
      broken FROM image WHERE recording = ? GROUP BY verdict, cell"""
    rows = list(store.rows(query, COLUMNS, last + 1, recording))
    most = max((row[2] for row in rows), default=1)
    cells = []
    for verdict, cell, count, event, place, reason, eviction, broken in rows:
        line = command(Path(recording), event, eviction)
        about = f"{count} images; this one: {place}, {broken or reason}"
        shade = 0.35 + 0.65 * count / most
        cells.append(
            f'<rect x="{cell * CELL_PX}" y="{OUTCOMES.index(verdict) * ROW_PX}"'
            f' width="{CELL_PX - 1}" height="{ROW_PX - 2}" fill="{OUTCOME_COLORS[verdict]}"'
            f' fill-opacity="{shade:.2f}" data-command="{escape(line)}"'
            f' data-about="{escape(about)}">'
            f"<title>{escape(about)}</title></rect>"
        )
    return cells, last


def _map(store: Store, recording: str) -> str:
    cells, last = _cells(store, recording)
    width, height = COLUMNS * CELL_PX, len(OUTCOMES) * ROW_PX
    labels = "".join(
        f'<text x="{width + 6}" y="{n * ROW_PX + 12}" font-size="12">{name}</text>'
        for n, name in enumerate(OUTCOMES)
    )
    return (
        f"<h3>{escape(Path(recording).name)}: {last:,} events from left to right</h3>"
        f'<svg viewBox="0 0 {width + 80} {height}" class=map>{"".join(cells)}{labels}</svg>'
    )


def _mix_table(shares: Mix) -> str:
    rows = [("near commit or consume", shares.near), ("resumed", shares.resumed)]
    rows += [("cold boot", shares.cold), *shares.places.items()]
    return "".join(f"<tr><td>{name}<td class=n>{share:.1%}</tr>" for name, share in rows)


def _outcome_table(store: Store) -> str:
    counts = {(place, outcome): n for place, outcome, n in table(store)}
    outcomes = sorted({outcome for _, outcome in counts})
    places = [*PLACES, *sorted({place for place, _ in counts} - set(PLACES))]
    head = "".join(f"<th>{escape(outcome)}" for outcome in outcomes)
    body = "".join(
        f"<tr><td>{place}"
        + "".join(f"<td class=n>{counts.get((place, o), 0) or ''}" for o in outcomes)
        + "</tr>"
        for place in places
    )
    return f"<table><tr><th>{head}</tr>{body}</table>"


def page(store: Store, result: Result, broken: list[dict[str, str]]) -> str:
    """The whole page. *broken*: violations, and the commands that show them."""
    figures = "".join(
        f"<tr><td>{escape(name)}<td class=n>{escape(_value(figure.value))}<td>"
        f"{escape(figure.unit)}<td>{escape(figure.kind)}</tr>"
        for name, figure in result.figures.items()
    )
    found = "".join(
        f"<tr><td class=bad>{escape(item['broken'])}<td>{escape(item['place'])}"
        f"<td><code>{escape(item['command'])}</code></tr>"
        for item in broken
    )
    recordings = [row[0] for row in store.rows("SELECT DISTINCT recording FROM image ORDER BY 1")]
    maps = "".join(_map(store, recording) for recording in recordings)
    title = "No cut broke a promise" if result.ok else "The campaign found something"
    return f"""<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>{title}</title><style>{STYLE} .map rect {{ cursor: pointer }}
code {{ background: #f2f2f2; padding: .1rem .3rem }}</style>
<h1>{title}</h1>
<h2>Where the power failed, and the outcome</h2>
{maps}
<p>A click on a cell: <code id=command>./rem replay ...</code> <span id=about class=note></span></p>
<h2>Places and outcomes</h2>{_outcome_table(store)}
<h2>Mix</h2><table>{_mix_table(mix(store))}</table>
<h2>Violations</h2><table>{found or "<tr><td class=ok>none</tr>"}</table>
<h2>Figures</h2><table><tr><th>figure<th>value<th>unit<th>kind</tr>{figures}</table>
<script>{SCRIPT}</script>
<script type="application/json" id=result>{_embedded(result)}</script>
</html>
"""


def _value(value: float | int | str | bool) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _embedded(result: Result) -> str:
    return json.dumps(json.loads(result.as_json())).replace("<", "\\u003c")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page: a summary, a table of experiments and one of values, a section for each paper, and the
records of benchmarks. It is one file that needs no other and no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from lab.evaluation import style
from lab.evaluation.collect import Entry, Evaluation, Value
from lab.evaluation.papers import Group
from lab.evaluation.pictures import overview_picture
from lab.evaluation.quantity import number
from lab.evaluation.sections import VALUE_COLUMNS, experiment, other, other_row, value_cells
from lab.evaluation.tables import Cell, Row, table, text
from lab.evaluation.tally import summary_of
from lab.evaluation.words import AGES, VERDICTS, age, count
from lab.report.html_style import STYLE

TITLE = "Remanence: measured, beside the papers"
KINDS = ("native", "modelled", "counted")
# What the summary counts, and in which words.
SUMMARY = {
    "experiments": "experiments",
    "values": "values of papers",
    "within": "within tolerance",
    "accepted": "accepted deviations",
    "deviating": "not within",
    "rows_within_25_percent": "points within 25 %",
    "unmeasured": "values not measured",
    "missing_unlisted": "points missing without a reason",
    "missing_listed": "points that cannot be had",
    "missing": "experiments never measured",
    "stale": "experiments with a stale record",
}
EXPERIMENT_COLUMNS = (
    "Experiment", "Source", "Kind", "Values", "Within", "Accepted", "Not within", "Not measured",
    "Record",
)  # fmt: skip
OTHER_COLUMNS = ("Record", "Command", "Kind", "Figures", "Age")
READING = """
<p><strong>Three kinds of figures.</strong> <em>Native</em>: the clock of the host that measured.
<em>Modelled</em>: time, energy or wear by a model of processors, memories and supplies.
<em>Counted</em>: events, such as instructions, pages or faults. A model is no clock, so each line
names its kind.</p>
<p><strong>Four verdicts.</strong> <em>Within</em>: inside the tolerance, range or limit that the
experiment states for the paper's value. <em>Accepted deviation</em>: outside, for a reason that
names a mechanism, and a sweep that shows it stands below the value. <em>Not within</em>: outside,
and nothing shows why; or the record lacks the figure. <em>Not measured</em>: there is no record,
or it is older than the value. The deviation is ours against the paper's value, in percent of it;
of a range or limit, beyond its nearest end.</p>
<p><strong>Records.</strong> Each figure is what its command printed last. A record is
<em>current</em> if the code that it measures has not changed since, and <em>stale</em> otherwise;
its verdicts count all the same. A run that contradicts a statement of its paper leaves no
record.</p>
"""


def page(evaluation: Evaluation, own_pictures: Mapping[str, str]) -> str:
    """The whole page. *own_pictures*: what experiments draw, by their names, if it is here."""
    papers = "".join(_paper(group, entries, own_pictures) for group, entries in evaluation.papers)
    titles = [(f"paper-{group.prefix}", _short(group)) for group, _ in evaluation.papers]
    links = [("experiments", "Experiments"), ("values", "All values"), *titles]
    links += [("benchmarks", "Benchmarks"), ("reading", "How to read this")]
    items = "".join(f'<li><a href="#{escape(to)}">{escape(what)}</a></li>' for to, what in links)
    return f"""<!doctype html>
<html lang=en><head><meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1">
<title>{TITLE}</title><style>{STYLE}{style.STYLE}</style></head><body>
<header><h1>{TITLE}</h1>
<p class=note>Figures and tables of five papers on memory that survives a power failure, each
measured here and compared with what the paper gives. <a href="#reading">How to read this</a>
explains kinds, verdicts and records.</p></header>
<nav aria-label="Sections"><ul>{items}</ul></nav>
<main>
{_summary(evaluation)}
{_experiments(evaluation)}
{_all_values(evaluation)}
{papers}
{_others(evaluation)}
<section id=reading><h2>How to read this</h2>{READING}</section>
</main>
<script>{style.SCRIPT}</script>
</body></html>
"""


def _short(group: Group) -> str:
    """A paper's title without what follows a colon."""
    return group.title.partition(":")[0]


def _summary(evaluation: Evaluation) -> str:
    counts = evaluation.counts() | summary_of(evaluation).counts()
    tiles = "".join(
        f"<div><dt>{words}</dt><dd>{number(counts[key])}</dd></div>"
        for key, words in SUMMARY.items()
    )
    drawn = overview_picture(evaluation.entries)
    caption = (
        "Each mark is a value for which the paper gives one number: ours over the paper's. Words,"
        " ranges and limits are in the tables only. What was never measured has no mark."
    )
    figure = f"<figure tabindex=0>{drawn}<figcaption>{caption}</figcaption></figure>"
    return (
        f'<section aria-label="Summary"><dl class=summary>{tiles}</dl>'
        f"{figure if drawn else ''}</section>"
    )


def _facts(entry: Entry, verdicts: Sequence[str], kinds: Sequence[str]) -> dict[str, str]:
    return {
        "paper": entry.name.partition("-")[0],
        "verdict": " ".join(sorted(set(verdicts))),
        "kind": " ".join(kinds),
        "age": entry.kept.age,
    }


def _filter(evaluation: Evaluation, of: str) -> str:
    """Choices above a table; the script shows them, because nothing works without it."""
    papers = {group.prefix: _short(group) for group, _ in evaluation.papers}
    choices: dict[str, tuple[str, dict[str, str]]] = {
        "paper": ("Paper", {prefix: title for prefix, title in papers.items() if prefix}),
        "verdict": ("Verdict", {key: word for key, (_, word) in VERDICTS.items()}),
        "kind": ("Kind", {kind: kind for kind in KINDS}),
        "age": ("Record", {key: word for key, word in AGES.items()}),
    }
    selects = "".join(
        f"<label>{label}<select name={name}><option value=''>all</option>"
        + "".join(f'<option value="{escape(v)}">{escape(w)}</option>' for v, w in options.items())
        + "</select></label>"
        for name, (label, options) in choices.items()
    )
    return (
        f"<form class=filter hidden data-table={of} role=search>"
        f"<label>Words<input name=words type=search autocomplete=off></label>{selects}"
        "<button type=reset>Show all</button><output aria-live=polite></output></form>"
    )


def _wide(listed: str, label: str) -> str:
    """A table of many columns, which scrolls by itself where the screen is not as wide."""
    return f'<div class=wide role=region tabindex=0 aria-label="{label}">{listed}</div>'


def _link(entry: Entry) -> Cell:
    name, title = escape(entry.name), escape(entry.paper.title)
    return Cell(f'<a href="#{name}">{name}</a> {title}')


def _experiments(evaluation: Evaluation) -> str:
    def row(entry: Entry) -> Row:
        cells = [
            _link(entry),
            text(entry.paper.source),
            text(", ".join(entry.kinds)),
            count(len(entry.values)) if entry.values else Cell("statements", 0, "n"),
            *(count(entry.count(verdict)) for verdict in VERDICTS),
            age(entry.kept),
        ]
        return Row(cells, _facts(entry, [value.verdict for value in entry.values], entry.kinds))

    listed = table(
        EXPERIMENT_COLUMNS,
        [row(entry) for entry in evaluation.entries],
        "Experiments, and how many values of their papers are met. Where a paper gives no value by"
        " name, the experiment checks statements about it.",
        "table-experiments",
        "dense experiments",
    )
    form = _filter(evaluation, "table-experiments")
    shown = _wide(listed, "Experiments")
    return (
        f"<section id=experiments><h2>Experiments</h2>{form}{shown}{_missing(evaluation)}</section>"
    )


def _missing(evaluation: Evaluation) -> str:
    """Points of the papers that no experiment has, with the reasons."""
    if not evaluation.missing:
        return ""
    items = "".join(f"<li>{escape(str(one))}</li>" for one in evaluation.missing)
    head = f"{number(len(evaluation.missing))} points of the papers that are missing, and why"
    return f"<details><summary>{head}</summary><ul>{items}</ul></details>"


def _all_values(evaluation: Evaluation) -> str:
    def row(entry: Entry, value: Value) -> Row:
        name = escape(entry.name)
        link = Cell(f'<a href="#{name}">{name}</a>')
        kinds = [value.ours.kind] if value.ours else []
        cells = [link, *value_cells(value), age(entry.kept)]
        return Row(cells, _facts(entry, [value.verdict], kinds))

    rows = [row(entry, value) for entry in evaluation.entries for value in entry.values]
    columns = ("Experiment", *VALUE_COLUMNS, "Record")
    caption = "Every value that a paper gives by name"
    listed = table(columns, rows, caption, "table-values", "dense")
    form = _filter(evaluation, "table-values")
    return (
        "<section id=values><h2>All values</h2>"
        f"<details><summary>{number(len(rows))} values in one table</summary>{form}"
        f"{_wide(listed, 'All values')}</details></section>"
    )


def _paper(group: Group, entries: Sequence[Entry], own_pictures: Mapping[str, str]) -> str:
    shown = "".join(experiment(entry, own_pictures.get(entry.name, "")) for entry in entries)
    return (
        f'<section class=paper id="paper-{escape(group.prefix)}">'
        f"<h2>{escape(group.title)}</h2>{shown}</section>\n"
    )


def _others(evaluation: Evaluation) -> str:
    listed = table(
        OTHER_COLUMNS,
        [other_row(kept) for kept in evaluation.others],
        "Records of benchmarks, campaigns and demonstrations",
        "table-benchmarks",
    )
    shown = "".join(other(kept) for kept in evaluation.others)
    return (
        "<section class=paper id=benchmarks><h2>Benchmarks, campaigns and demonstrations</h2>"
        f"<p>No paper has values for these.</p>{listed}{shown}</section>"
    )

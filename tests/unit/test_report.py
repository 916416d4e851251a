# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem report`: the page shows what was measured, and shows as such what is wrong with it.

Goal: a value out of its tolerance, a deviation that nothing shows, a stale and a missing record
cannot be taken for good ones; a damaged record or paper.toml ends the command with one line and
leaves the old page; text of a record cannot become part of the page's HTML. Method: a repository
of two papers and three experiments; each test breaks one thing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lab import cli, paths
from lab.docs.records import Record, measured_key, read_table, write_record
from lab.errors import Exit, RemError
from lab.evaluation.collect import collect
from lab.evaluation.papers import OTHERS, groups, order
from lab.evaluation.write import write_report
from lab.experiment.expected import Values
from lab.experiment.run import names
from lab.run import run
from lab.tidy.files import project_files

PAPERS = """
[[paper]]
prefix = "two"
title = "The second, first"
[[paper]]
prefix = "one"
title = "The first"
"""
EXPECTED = """
title = "A title"
source = "The paper, Figure 1"
[values]
cores = 8
[values.window_ms]
atx = [16, 22]
[expected]
ratio = { paper = 2.0, tolerance_percent = 25 }
stop_ns = { at_most = 16_000_000 }
most = { paper = "wrf" }
large = { paper = [7, 14], full = true }
[[accepted]]
figures = ["ratio"]
reason = "the paper names no queue"
sweep = ["ratio, one queue", "ratio, two queues"]
"""
STATED = 'title = "Statements only"\nsource = "The paper, Table 1"\n[values]\ndevices = 730\n'
POINTS = """
[[row]]
id = "ONE-F1"
experiments = ["one-f1", "one-f2"]
points = { ratio = "2", least = "mcf" }
[[row]]
id = "TWO-T1"
reason = "<b>no</b> such machine"
"""
TABLE = """
[source.one-f1]
command = "experiment one-f1"
measures = ["code"]
[source.two-t1]
command = "experiment two-t1"
measures = ["code"]
[source.stops]
command = "bench stops"
measures = ["code"]
"""
README = """<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# one-f1: a title

**Question.** Is it <!--fig one-f1.ratio .1-->2.1<!--/fig--> times?

**Method.** As [written](../README.md), <b>boldly</b>.

| what | value |
|---|---:|
| a | 1 |
"""
DRAWING = """
def judge(raw, paper, report):
    for name, value in raw.items():
        report.add(name, value, "")
def draw(raw, paper, figure):
    figure.subplots().set_title("drawn by the experiment itself")
"""


def figure(value: Any, unit: str = "", kind: str = "modelled") -> dict[str, Any]:
    return {"value": value, "unit": unit, "kind": kind}


GOOD = {
    "ratio": figure(2.1, "x", "native"),
    "stop_ns": figure(3_000_000, "ns"),
    "most": figure("wrf"),
    "large": figure(8),
    "ratio, one queue": figure(1.6, "x", "native"),
    "ratio, two queues": figure(0.5, "x", "native"),
    "faults": figure(12_345, "faults", "counted"),
    "accepted deviation, ratio": figure("an old line"),
    "paper_values_held": figure(77, "values", "counted"),
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    experiments = {"one-f1": EXPECTED, "one-f2": EXPECTED, "two-t1": STATED}
    for name, paper in experiments.items():
        here = repo / "experiments" / name
        here.mkdir(parents=True)
        (here / "paper.toml").write_text(paper)
        (here / "experiment.py").write_text(DRAWING)
        (here / "README.md").write_text(README.replace("one-f1", name))
    (repo / "experiments" / "papers.toml").write_text(PAPERS)
    (repo / "experiments" / "points.toml").write_text(POINTS)
    (repo / "code").mkdir()
    (repo / "code" / "a.c").write_text("int a = 1;\n")
    (repo / "docs").mkdir()
    (repo / "docs" / "figures.toml").write_text(TABLE)
    run(["git", "init", "-q"], cwd=repo)
    record(repo, "one-f1", GOOD)
    record(repo, "two-t1", {"devices": figure(730, "", "counted")})
    record(repo, "stops", {"stop_max_ns": figure(110_279, "ns")})
    return repo


def record(repo: Path, name: str, figures: dict[str, Any], **changed: Any) -> None:
    source = read_table(repo).sources[name]
    key = measured_key(repo, source, project_files(repo))
    row = {"command": source.command, "key": key, "figures": figures} | changed
    write_record(repo, source, Record(**row))


def page_of(repo: Path) -> tuple[str, dict[str, Any], bool]:
    """The page, and the figures and the verdict of the command."""
    target = repo.parent / "out" / "page.html"
    result = write_report(repo, target)
    counts = {name: one.value for name, one in result.figures.items()}
    return target.read_text(encoding="utf-8"), counts, result.ok


def section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">(.*?)</section>', page, re.DOTALL)
    assert found, name
    return found[1]


def line(page: str, experiment: str, name: str) -> list[str]:
    """Cells of a figure in its experiment's table, as text."""
    rows = re.findall(r"<tr role=row>(.*?)</tr>", section(page, experiment), re.DOTALL)
    cells = [re.findall(r"<t[hd] .*?>(.*?)</t[hd]>", row) for row in rows]
    plain = [[re.sub(r"<.*?>", "", cell).replace("&nbsp;", " ") for cell in row] for row in cells]
    return next(row for row in plain if row[0] == name)


def test_value_within_its_tolerance(repo: Path) -> None:
    page, counts, ok = page_of(repo)
    assert ok
    assert counts == {
        "experiments": 3,
        "values": 8,
        "within": 4,
        "accepted": 0,
        "deviating": 0,
        "unmeasured": 4,
        "missing": 1,
        "stale": 0,
        "benchmarks": 1,
        "benchmarks_missing": 0,
        "benchmarks_stale": 0,
    }
    assert line(page, "one-f1", "ratio") == [
        "ratio", "2.1×", "2×", "±25%", "+5.0%", "native", "✓ within",
    ]  # fmt: skip
    assert line(page, "one-f1", "stop_ns")[1:5] == [
        "3\xa0ms",
        "at most 16\xa0ms",
        "limit",
        "inside",
    ]
    assert line(page, "one-f1", "large")[2:5] == ["7 to 14", "range", "inside"]
    assert line(page, "one-f1", "most")[1:3] == ["wrf", "wrf"]


@pytest.mark.parametrize(
    ("name", "value", "deviation"),
    [("stop_ns", 20_000_000, "+25.0%"), ("most", "mcf", "other"), ("large", 3.5, "−50.0%")],
)
def test_value_out_of_tolerance_shows_as_such(
    repo: Path, name: str, value: Any, deviation: str
) -> None:
    record(repo, "one-f1", GOOD | {name: figure(value, GOOD[name]["unit"])})
    page, counts, ok = page_of(repo)
    assert not ok
    assert (counts["within"], counts["deviating"]) == (3, 1)
    assert line(page, "one-f1", name)[4:] == [deviation, "modelled", "✗ not within"]


def test_accepted_deviation_shows_reason_and_sweep(repo: Path) -> None:
    record(repo, "one-f1", GOOD | {"ratio": figure(1.2, "x", "native")})
    page, counts, ok = page_of(repo)
    assert ok and counts["accepted"] == 1
    assert line(page, "one-f1", "ratio")[4:] == ["−40.0%", "native", "≈ accepted"]
    own = section(page, "one-f1")
    assert "the paper names no queue" in own
    nearest = re.search(r"<li class=nearest><span>(.*?)</span><span>(.*?)</span>", own)
    assert nearest and nearest.groups() == ("ratio, one queue", "1.6×")
    assert "<span>ratio, two queues</span><span>0.5×</span>" in own


def test_deviation_that_its_sweep_does_not_show_is_not_accepted(repo: Path) -> None:
    sweep = {"ratio, one queue": figure(1.1, "x"), "ratio, two queues": figure(0.1, "x")}
    record(repo, "one-f1", GOOD | {"ratio": figure(1.2, "x")} | sweep)
    page, counts, ok = page_of(repo)
    assert not ok and (counts["accepted"], counts["deviating"]) == (0, 1)
    assert line(page, "one-f1", "ratio")[-1] == "✗ not within"
    assert "comes no nearer" in section(page, "one-f1")


def test_sweep_of_another_kind_names_it(repo: Path) -> None:
    changed = {"ratio": figure(1.2, "x", "native"), "ratio, one queue": figure(1.6, "x")}
    record(repo, "one-f1", GOOD | changed)
    assert "<span>1.6× (modelled)</span>" in section(page_of(repo)[0], "one-f1")


def test_verdicts_are_those_of_the_experiment(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Values.compare
    asked = []

    def listening(self: Values, figures: Any, is_full: bool) -> Any:
        asked.append(is_full)
        return compare(self, figures, is_full)

    monkeypatch.setattr(Values, "compare", listening)
    collect(repo)
    assert asked == [True, True]  # once for each experiment that has a record


def test_record_of_the_short_form_leaves_out_what_only_the_full_one_measures(repo: Path) -> None:
    short = {name: one for name, one in GOOD.items() if name != "large"}
    record(repo, "one-f1", short)
    assert page_of(repo)[1]["deviating"] == 1
    table = TABLE.replace('"experiment one-f1"', '"experiment one-f1 --tier ci"')
    (repo / "docs" / "figures.toml").write_text(table)
    record(repo, "one-f1", short)
    page, counts, ok = page_of(repo)
    assert ok and (counts["within"], counts["unmeasured"]) == (3, 5)
    assert line(page, "one-f1", "large")[-1] == "– not measured"


def test_stale_record_shows(repo: Path) -> None:
    assert "Stale record" not in page_of(repo)[0]
    (repo / "code" / "a.c").write_text("int a = 2;\n")
    page, counts, _ = page_of(repo)
    assert (counts["stale"], counts["benchmarks_stale"]) == (2, 1)
    for name in ("one-f1", "two-t1", "record-stops"):
        assert "Stale record" in section(page, name)
    assert line(page, "one-f1", "ratio")[-1] == "✓ within"  # what it was then


def test_record_of_another_command_is_stale(repo: Path) -> None:
    record(repo, "stops", {}, command="bench stops --quick")
    assert page_of(repo)[1]["benchmarks_stale"] == 1


def test_record_without_a_source_is_not_dropped(repo: Path) -> None:
    (repo / "docs" / "figures.toml").write_text(TABLE.split("[source.stops]")[0])
    page, counts, _ = page_of(repo)
    assert (counts["benchmarks"], counts["benchmarks_stale"]) == (1, 1)
    own = section(page, "record-stops")
    assert "110.3\xa0µs" in own and "./rem bench stops" in own
    assert "no command of its name" in own and "--refresh" not in own


def test_what_was_never_measured_is_listed(repo: Path) -> None:
    (repo / "docs" / "figures" / "stops.json").unlink()
    page, counts, _ = page_of(repo)
    assert (counts["missing"], counts["benchmarks_missing"]) == (1, 1)
    for name in ("one-f2", "record-stops"):
        assert "Never measured" in section(page, name)
    assert "./rem experiment one-f2" in section(page, "one-f2")
    # With the paper's values, in the units of their names.
    assert line(page, "one-f2", "stop_ns")[1:3] == ["", "at most 16\xa0ms"]
    assert line(page, "one-f2", "stop_ns")[-1] == "– not measured"


def test_figure_that_the_record_lacks_is_not_within(repo: Path) -> None:
    record(repo, "one-f1", {name: one for name, one in GOOD.items() if name != "ratio"})
    page, counts, ok = page_of(repo)
    assert not ok and counts["deviating"] == 1
    assert "was not measured" in section(page, "one-f1")


def test_value_that_is_newer_than_the_record_is_not_measured(repo: Path) -> None:
    """A current record has every figure that its code measures, a stale one those of its time."""
    record(repo, "one-f1", {name: one for name, one in GOOD.items() if name != "ratio"})
    (repo / "code" / "a.c").write_text("int a = 2;\n")
    page, counts, ok = page_of(repo)
    assert ok and (counts["deviating"], counts["unmeasured"]) == (0, 5)
    assert line(page, "one-f1", "ratio")[-1] == "– not measured"


def test_points_that_nothing_measures_are_listed(repo: Path) -> None:
    page, _, _ = page_of(repo)
    assert "<li>ONE-F1, least</li>" in page
    assert "<li>TWO-T1: &lt;b&gt;no&lt;/b&gt; such machine</li>" in page


def test_figures_without_a_paper_value_name_their_kind(repo: Path) -> None:
    page, _, _ = page_of(repo)
    assert line(page, "one-f1", "faults") == ["faults", "12,345\xa0faults", "counted"]
    assert line(page, "two-t1", "devices") == ["devices", "730", "counted"]
    # Those of the comparison itself are computed again, not shown as they were.
    assert "an old line" not in page and "paper_values_held" not in page


def test_experiment_without_expected_values_shows_what_the_paper_gives(repo: Path) -> None:
    own = section(page_of(repo)[0], "two-t1")
    assert "<dt>devices</dt><dd>730</dd>" in own
    assert "None is compared by name" in own
    assert "<dt>window_ms: atx</dt><dd>16, 22</dd>" in section(page_of(repo)[0], "one-f1")


def test_papers_are_in_their_order(repo: Path) -> None:
    page, _, _ = page_of(repo)
    titles = re.findall(r"<h2>(The .*?)</h2>", page)
    assert titles == ["The second, first", "The first"]
    found = sorted(["lpc-wear", "lpc-t2", "lpc-f16", "lpc-f2", "lpc-f6-f7"], key=order)
    assert found == ["lpc-f2", "lpc-f6-f7", "lpc-f16", "lpc-t2", "lpc-wear"]


def test_every_experiment_of_this_repository_has_a_paper() -> None:
    found = groups(paths.repo_dir(), names())
    assert OTHERS not in [group.title for group in found]
    assert sorted(name for group in found for name in group.names) == names()


def test_readme_is_part_of_the_page(repo: Path) -> None:
    own = section(page_of(repo)[0], "one-f1")
    assert "<p>Is it 2.1 times?</p>" in own
    assert "As written, &lt;b&gt;boldly&lt;/b&gt;" in own  # neither a link away nor HTML
    assert '<th scope="col">what</th>' in own
    assert "--fig" not in own and "SPDX" not in own


class Page(HTMLParser):
    """Elements of a page, their attributes, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "input", "br", "hr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


NASTY = """"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp; $x$"""


def test_text_cannot_become_html(repo: Path) -> None:
    """In every place of a record, a paper.toml and a README that has text."""
    good = Page(page_of(repo)[0])
    for name in ("one-f1", "one-f2"):
        paper = EXPECTED.replace("A title", NASTY.replace('"', '\\"'))
        paper = paper.replace("Figure 1", NASTY.replace('"', '\\"'))
        paper = paper.replace("names no queue", NASTY.replace('"', '\\"'))
        paper = paper.replace('"wrf"', f"'''{NASTY}'''").replace("cores = 8", f"c = '''{NASTY}'''")
        paper = paper.replace("ratio, one queue", NASTY.replace('"', '\\"'))
        (repo / "experiments" / name / "paper.toml").write_text(paper)
        (repo / "experiments" / name / "README.md").write_text(README + NASTY)
    titles = PAPERS.replace("The first", NASTY.replace('"', '\\"'))
    (repo / "experiments" / "papers.toml").write_text(titles)
    figures = GOOD | {NASTY: figure(1.9, NASTY), "most": figure(NASTY), "ratio": figure(1.2, NASTY)}
    record(repo, "one-f1", figures, key=NASTY)
    record(repo, "stops", figures, command=NASTY)
    text, _, _ = page_of(repo)
    page = Page(text)
    assert page.open == []
    kinds = {tag for tag, _ in page.tags}
    assert kinds - {tag for tag, _ in good.tags} <= {"ul", "li"}  # of the sweep
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not any(key.startswith("on") for _, attrs in page.tags for key in attrs)
    assert text.count("&lt;script&gt;alert(1)") > 20


def test_page_needs_no_other_file_and_no_network(repo: Path) -> None:
    page = Page(page_of(repo)[0])
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed"}
        for key in ("src", "href", "xlink:href", "srcset", "action"):
            assert (attrs.get(key) or "#").startswith("#"), (tag, attrs)
    assert "url(http" not in page_of(repo)[0] and "@import" not in page_of(repo)[0]


def test_page_can_be_read_by_who_cannot_see_it(repo: Path) -> None:
    page = Page(page_of(repo)[0])
    tags = [tag for tag, _ in page.tags]
    for tag, attrs in page.tags:
        if tag == "th":
            assert attrs.get("scope") in {"col", "row"}
        if tag == "svg":
            assert attrs.get("role") == "img" and attrs.get("aria-label")
    assert ("html", {"lang": "en"}) in page.tags
    assert tags.count("main") == tags.count("h1") == tags.count("nav") == 1
    assert tags.count("table") == tags.count("caption") + tags.count("h1") * 3  # READMEs' tables
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_ratio_is_drawn_and_same_records_give_the_same_page(repo: Path) -> None:
    page, _, _ = page_of(repo)
    assert "1.05×</text>" in section(page, "one-f1")  # 2.1 over 2.0
    assert "<svg" not in section(page, "one-f2")  # never measured
    assert page_of(repo)[0] == page


def raw(repo: Path, figures: dict[str, Any], **changed: Any) -> None:
    """Raw results as a run of one-f1 leaves them."""
    place = repo / "report" / "experiments" / "one-f1"
    place.mkdir(parents=True, exist_ok=True)
    kept = {"experiment": "one-f1", "tier": "full", "raw": figures} | changed
    (place / "raw.json").write_text(json.dumps(kept))


def test_own_picture_is_shown_only_if_it_is_of_the_record(repo: Path) -> None:
    values = {"ratio": 2.1, "stop_ns": 3_000_000, "most": "wrf", "large": 8}
    counts = ("paper_values_held", "deviations_accepted", "deviations_not_accepted")
    counted = {n: figure(v, "values", "counted") for n, v in zip(counts, (4, 0, 0), strict=True)}
    record(repo, "one-f1", {name: figure(value) for name, value in values.items()} | counted)
    drawn = "drawn by the experiment itself"
    assert drawn not in page_of(repo)[0]
    raw(repo, values)
    assert drawn in section(page_of(repo)[0], "one-f1")
    for other in ({**values, "ratio": 2.2}, {}, []):
        raw(repo, other)  # type: ignore[arg-type]
        assert drawn not in page_of(repo)[0]
    raw(repo, values, experiment="one-f2")
    assert drawn not in page_of(repo)[0]


def damage(path: str, text: str) -> Callable[[Path], None]:
    return lambda repo: (repo / path).write_text(text) and None


def edit(path: str, old: str, new: str) -> Callable[[Path], None]:
    def change(repo: Path) -> None:
        text = (repo / path).read_text()
        assert old in text
        (repo / path).write_text(text.replace(old, new, 1))

    return change


RECORD, PAPER = "docs/figures/one-f1.json", "experiments/one-f1/paper.toml"
DAMAGES = {
    "record is no JSON": damage(RECORD, '{"command": '),
    "record is a list": damage(RECORD, "[]"),
    "record has no figures": damage(RECORD, '{"command": "a", "key": "b", "lines": []}'),
    "figures are a list": edit(RECORD, '"figures": {', '"figures": [], "old": {'),
    "figure has no kind": edit(RECORD, '"kind": "native"', '"sort": "native"'),
    "figure has an unknown kind": edit(RECORD, '"kind": "native"', '"kind": "guessed"'),
    "figure has no unit": edit(RECORD, '"unit": "x"', '"unit": 3'),
    "figure is a list": edit(RECORD, '"value": 2.1', '"value": [2.1]'),
    "figure is a word": edit(RECORD, '"value": 2.1', '"value": "two"'),
    "record of a benchmark": damage("docs/figures/stops.json", "{}"),
    "record of no source": damage("docs/figures/old.json", "{}"),
    "paper is no TOML": damage(PAPER, "title = "),
    "paper has no title": edit(PAPER, "title =", "name ="),
    "title is no text": edit(PAPER, '"A title"', "3"),
    "unknown key of a value": edit(PAPER, "tolerance_percent", "tolerance"),
    "expected is no table": edit(PAPER, "[expected]", "[[expected]]"),
    "tolerance is a word": edit(PAPER, "tolerance_percent = 25", 'tolerance_percent = "25"'),
    "range of words": edit(PAPER, "[7, 14]", '["a", "b"]'),
    "deviation without figures": edit(PAPER, 'figures = ["ratio"]', ""),
    "deviation of no value": edit(PAPER, 'figures = ["ratio"]', 'figures = ["other"]'),
    "list of papers": damage("experiments/papers.toml", "[[papers]]"),
    "list of sources": damage("docs/figures.toml", "[source.one-f1]\n"),
    "no README": lambda repo: (repo / "experiments" / "one-f1" / "README.md").unlink(),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_one_line_and_leaves_the_old_page(
    repo: Path, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "repo_dir", lambda: repo)
    target = repo.parent / "page.html"
    target.write_text("the old page")
    DAMAGES[what](repo)
    code = cli.main(["report", "--out", str(target), "--json"])
    printed = capsys.readouterr()
    assert code not in (Exit.PASS, Exit.HANG, Exit.USAGE)
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1 and printed.err.startswith("rem: ")
    assert target.read_text() == "the old page"
    assert [path.name for path in repo.parent.iterdir() if path.is_file()] == ["page.html"]


def test_page_that_cannot_be_written_leaves_nothing(repo: Path) -> None:
    target = repo.parent / "page.html"
    target.mkdir()
    with pytest.raises(RemError, match="cannot write"):
        write_report(repo, target)
    assert sorted(path.name for path in repo.parent.iterdir()) == ["page.html", "repo"]


def test_command_prints_its_counts_and_fails_if_a_value_deviates(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "repo_dir", lambda: repo)
    assert cli.main(["report", "--json"]) == Exit.PASS
    assert (repo / "report" / "index.html").stat().st_mode & 0o777 == 0o644
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["name"] == "report" and printed["ok"] is True
    assert printed["figures"]["values"] == figure(8, "", "counted")
    record(repo, "one-f1", GOOD | {"most": figure("mcf")})
    assert cli.main(["report", "--json"]) == Exit.BROKEN
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["ok"] is False and printed["figures"]["deviating"]["value"] == 1

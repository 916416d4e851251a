# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem experiment --all`: every experiment is run, counted and judged, also after one that raises.

Goal: no point of a paper, no failure and no old result can be missing from the table or count as
something better. Method: a repository of a few experiments that need no model; each test breaks one
thing. tests/unit/test_experiment_points.py has the list of points of this repository.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from lab import cli
from lab.docs.records import Record, measured_key, read_table, write_record
from lab.errors import Exit, InfraError
from lab.evaluation import every
from lab.evaluation.every import Plan, recorded, run_all
from lab.evaluation.tally import Summary
from lab.experiment.expected import Expected, Values
from lab.experiment.run import Experiment
from lab.power.model import PowerModel
from lab.run import run
from lab.tidy.files import project_files

GOOD = """
title = "A title"
source = "The paper, Figure 1"
[values]
cores = 8
[expected]
ratio = { paper = 2.0, tolerance_percent = 5 }
stop_ns = { at_most = 16_000_000 }
most = { paper = "wrf" }
large = { paper = [7, 14], full = true }
[[accepted]]
figures = ["ratio"]
reason = "the paper names no queue"
sweep = ["ratio, one queue"]
[[unobtainable]]
points = ["ratio, FreeBSD"]
reason = "no such system"
"""
TABLE2 = """
title = "A table"
source = "The paper, Table 2"
[values]
[expected]
AES_reads = { paper = 5, tolerance_percent = 25 }
AES_hits = { paper = 99, tolerance_percent = 10 }
mcf_reads = { paper = 345, tolerance_percent = 25 }
"""
POINTS = """
[[row]]
id = "ONE-F1"
experiments = ["one-f1"]
[row.points]
ratio = "2"
stop_ns = "16 ms"
most = "wrf"
large = "7-14"
"ratio, FreeBSD" = "3"
[[row]]
id = "ONE-T2"
experiments = ["one-t2"]
grouped = true
points = { AES = "5, 99", mcf = "345" }
[[row]]
id = "ONE-rel"
measured = ["stops"]
"""
EXPERIMENT = """
import json
from pathlib import Path
HERE = Path(__file__).parent
def measure(it):
    (HERE / "runs").open("a").write(f"{it.tier} {it.seed}\\n")
    return json.loads((HERE / "result.json").read_text())
def judge(raw, paper, report):
    for name, value in raw.items():
        report.add(name, value, "")
    report.expect("a statement", raw.get("stated", 1) == 1)
def draw(raw, paper, figure):
    figure.subplots()
"""
FIGURES: dict[str, dict[str, Any]] = {
    "one-f1": {"ratio": 2.05, "stop_ns": 3, "most": "wrf", "large": 8, "ratio, one queue": 2.0},
    "one-t2": {"AES_reads": 5, "AES_hits": 98, "mcf_reads": 300},
}
SOURCES = """
[source.one-f1]
command = "experiment one-f1"
measures = ["code", "experiments/one-f1/paper.toml"]
[source.one-t2]
command = "experiment one-t2 --tier ci"
measures = ["code"]
[source.stops]
command = "bench stops"
measures = ["code"]
"""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repo = tmp_path / "repo"
    for name, paper in (("one-f1", GOOD), ("one-t2", TABLE2)):
        here = repo / "experiments" / name
        here.mkdir(parents=True)
        (here / "paper.toml").write_text(paper)
        (here / "experiment.py").write_text(EXPERIMENT)
        (here / "README.md").write_text(f"# {name}\n")
        results(repo, name)
    (repo / "experiments" / "points.toml").write_text(POINTS)
    (repo / "experiments" / "papers.toml").write_text('[[paper]]\nprefix = "one"\ntitle = "One"\n')
    for folder in ("code", "docs"):
        (repo / folder).mkdir()
    (repo / "code" / "a.c").write_text("int a = 1;\n")
    (repo / "docs" / "figures.toml").write_text(SOURCES)
    run(["git", "init", "-q"], cwd=repo)
    monkeypatch.setattr(PowerModel, "ready", lambda: cast(PowerModel, None))
    return repo


def results(repo: Path, name: str, **changed: Any) -> None:
    """What the experiment will measure."""
    path = repo / "experiments" / name / "result.json"
    path.write_text(json.dumps(FIGURES[name] | changed))


def all_of(repo: Path, tier: str = "full", seed: int = 1, kept: bool = False) -> Summary:
    return run_all(Plan(repo, tier, seed, lambda name: repo.parent / "out" / name, kept))


def runs(repo: Path, name: str) -> list[str]:
    path = repo / "experiments" / name / "runs"
    return path.read_text().splitlines() if path.exists() else []


def record(repo: Path, name: str) -> None:
    source = read_table(repo).sources[name]
    figures = {
        key: {"value": value, "unit": "", "kind": "modelled"}
        for key, value in FIGURES[name].items()
    }
    key = measured_key(repo, source, project_files(repo))
    write_record(repo, source, Record(source.command, key, figures))


def test_all_within_is_ok_and_counted(repo: Path) -> None:
    summary = all_of(repo)
    assert summary.ok
    # AES has two values and is one point.
    assert summary.counts() == {
        "experiments": 2,
        "experiments_failed": 0,
        "points": 6,
        "points_held": 6,
        "points_not_measured": 0,
        "rows_within_25_percent": 6,
        "deviations": 0,
        "deviations_accepted": 0,
        "deviations_not_accepted": 0,
        "missing_unlisted": 0,
        "missing_listed": 1,
        "sweep_moves_by_gap": 0,
        "sweeps_short": 0,
    }
    assert summary.deviations_percent == 0
    assert "cannot be had: ONE-F1, ratio, FreeBSD: no such system" in list(summary.lines())


def test_short_form_has_points_that_it_does_not_measure(repo: Path) -> None:
    summary = all_of(repo, tier="ci")
    counts = summary.counts()
    assert summary.ok
    assert (counts["points"], counts["points_held"], counts["points_not_measured"]) == (6, 5, 1)


@pytest.mark.parametrize(("ratio", "near"), [(2.4, 6), (2.6, 5)])
def test_accepted_deviation_counts_as_one(repo: Path, ratio: float, near: int) -> None:
    results(repo, "one-f1", ratio=ratio)
    counts = all_of(repo).counts()
    assert (counts["deviations"], counts["deviations_accepted"]) == (1, 1)
    assert counts["rows_within_25_percent"] == near
    assert (counts["sweep_moves_by_gap"], counts["sweeps_short"]) == (1, 0)
    assert all_of(repo).deviations_percent == 16.7


def test_sweep_that_only_comes_nearer_is_printed_and_no_failure(repo: Path) -> None:
    results(repo, "one-f1", **{"ratio": 3.0, "ratio, one queue": 2.9})
    summary = all_of(repo)
    assert summary.ok
    assert (summary.counts()["sweep_moves_by_gap"], summary.counts()["sweeps_short"]) == (0, 1)
    assert "sweep moves it by less than its gap: one-f1, ratio" in list(summary.lines())


def test_deviation_that_nobody_accepts_fails(repo: Path) -> None:
    results(repo, "one-t2", mcf_reads=3)
    summary = all_of(repo)
    assert not summary.ok
    assert summary.counts()["deviations_not_accepted"] == 1
    assert summary.counts()["experiments_failed"] == 1


def test_point_is_as_good_as_its_worst_value(repo: Path) -> None:
    results(repo, "one-t2", AES_hits=5)
    counts = all_of(repo).counts()
    assert (counts["points"], counts["points_held"]) == (6, 5)
    assert counts["rows_within_25_percent"] == 5


def test_statement_that_does_not_hold_fails(repo: Path) -> None:
    results(repo, "one-t2", stated=0)
    summary = all_of(repo)
    assert not summary.ok and summary.counts()["points_held"] == 6
    assert any("a statement of the paper does not hold" in line for line in summary.lines())


@pytest.mark.parametrize(
    "text",
    [
        EXPERIMENT.replace("return json", "raise ValueError('two\\nlines') #"),
        EXPERIMENT.replace("figure.subplots()", "assert False, 'two\\nlines'"),
        "two lines = 1\n",
    ],
)
def test_experiment_that_raises_is_a_line_and_the_others_run(
    repo: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (repo / "experiments" / "one-f1" / "experiment.py").write_text(text)
    summary = all_of(repo)
    assert not summary.ok
    assert [tally.ok for tally in summary.tallies] == [False, True]
    assert runs(repo, "one-t2") == ["full 1"]
    assert summary.counts()["points_not_measured"] == 4
    line = next(line for line in summary.lines() if line.startswith("one-f1"))
    assert "FAILED" in line
    assert "1 of 2: one-f1 FAILED" in capsys.readouterr().err


def test_interrupt_ends_all(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        all_of(repo)


def test_kept_results_are_taken_and_judged_again(repo: Path) -> None:
    all_of(repo)
    results(repo, "one-t2", mcf_reads=3)  # would deviate if it were measured
    summary = all_of(repo, kept=True)
    assert summary.ok and summary.counts()["points_held"] == 6
    assert runs(repo, "one-f1") == runs(repo, "one-t2") == ["full 1"]
    assert all(tally.note == "kept" for tally in summary.tallies)
    all_of(repo)
    assert runs(repo, "one-t2") == ["full 1", "full 1"]  # without the word all is measured


def _other_code(repo: Path, _: Path) -> None:
    (repo / "code" / "a.c").write_text("int a = 2;\n")


def _damaged(_: Path, raw: Path) -> None:
    raw.write_text(raw.read_text()[:-9])


def _without_a_header(_: Path, raw: Path) -> None:
    kept = json.loads(raw.read_text())
    raw.write_text(json.dumps({key: kept[key] for key in ("experiment", "tier", "raw")}))


def _without_a_source(repo: Path, _: Path) -> None:
    text = (repo / "docs" / "figures.toml").read_text()
    (repo / "docs" / "figures.toml").write_text(text.split("[source.one-t2]")[0])


@pytest.mark.parametrize("change", [_other_code, _damaged, _without_a_header, _without_a_source])
def test_other_results_are_not_taken(repo: Path, change: Callable[[Path, Path], None]) -> None:
    all_of(repo)
    change(repo, repo.parent / "out" / "one-t2" / "raw.json")
    all_of(repo, kept=True)
    assert runs(repo, "one-t2") == ["full 1", "full 1"]


def test_results_of_another_tier_or_seed_are_not_taken(repo: Path) -> None:
    all_of(repo)
    all_of(repo, tier="ci", kept=True)
    all_of(repo, tier="ci", seed=2, kept=True)
    assert runs(repo, "one-t2") == ["full 1", "ci 1", "ci 2"]


def test_raw_results_have_what_they_depend_on(repo: Path) -> None:
    all_of(repo, tier="ci", seed=7)
    path = repo.parent / "out" / "one-f1" / "raw.json"
    kept = json.loads(path.read_text())
    source = read_table(repo).sources["one-f1"]
    assert kept["code"] == measured_key(repo, source, project_files(repo))
    assert (kept["experiment"], kept["tier"], kept["seed"]) == ("one-f1", "ci", 7)
    assert kept["parameters"] == {"cores": 8}
    assert set(kept["commit"]) == {"digest", "is_changed"}
    assert kept["versions"]["products"] == []
    assert kept["raw"] == FIGURES["one-f1"]


def test_records_are_read_and_nothing_is_measured(repo: Path) -> None:
    record(repo, "one-f1")
    summary = recorded(repo)
    assert summary.ok
    assert [tally.note for tally in summary.tallies] == ["current", "no record"]
    assert (summary.counts()["points_held"], summary.counts()["points_not_measured"]) == (4, 2)
    record(repo, "one-t2")
    (repo / "code" / "a.c").write_text("int a = 2;\n")
    summary = recorded(repo)
    assert [tally.note for tally in summary.tallies] == ["stale", "stale, tier ci"]
    assert summary.counts()["points_held"] == 6
    assert not runs(repo, "one-f1") and not runs(repo, "one-t2")


def test_point_that_nobody_lists_fails(repo: Path) -> None:
    points = repo / "experiments" / "points.toml"
    points.write_text(POINTS.replace('most = "wrf"', 'most = "wrf"\nleast = "mcf"'))
    summary = all_of(repo)
    assert not summary.ok
    assert summary.counts()["missing_unlisted"] == 1
    assert summary.tallies[0].missing == 1
    assert "missing, and nobody says why: ONE-F1, least" in list(summary.lines())


def test_reason_that_cannot_be_had_changes_no_key(repo: Path) -> None:
    """A record is not stale because of what was not measured for it."""
    source, paper = read_table(repo).sources["one-f1"], repo / "experiments/one-f1/paper.toml"

    def key(text: str) -> str:
        paper.write_text(text)
        return measured_key(repo, source, project_files(repo))

    before = key(GOOD)
    assert key(GOOD.replace("no such system", "no other system")) == before
    assert key(GOOD.split("[[unobtainable]]")[0]) == before
    assert key(GOOD.replace("paper = 2.0", "paper = 2.1")) != before
    after = GOOD + '[[accepted]]\nfigures = ["most"]\nreason = "it"\nsweep = ["x"]\n'
    assert key(after) != before


@pytest.mark.parametrize(
    "words",
    [
        ["--all", "wsp-f8"],
        ["--all", "--tier", "soak"],
        ["--all", "--redraw", "raw.json"],
        ["--all", "--recorded", "--kept"],
        ["--all", "--recorded", "--out", "here"],
        ["--kept"],
        ["wsp-f8", "--recorded"],
    ],
)
def test_words_that_contradict_each_other_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert cli.main(["experiment", *words]) == Exit.USAGE
    assert capsys.readouterr().err.splitlines()[-1].startswith("rem: ")


def test_command_prints_the_table_and_the_figures(
    repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.paths.repo_dir", lambda: repo)
    words = ["experiment", "--all", "--out", str(repo.parent / "out"), "--json"]
    assert cli.main(words) == Exit.PASS
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    assert found["name"] == "experiment-all" and found["ok"] is True
    assert found["figures"]["points"] == {"value": 6, "unit": "", "kind": "counted"}
    assert found["figures"]["deviations_percent"]["value"] == 0
    assert "within 25 %" in printed.err
    results(repo, "one-t2", mcf_reads=3)
    assert cli.main(words) == Exit.BROKEN
    assert cli.main([*words, "--kept"]) == Exit.BROKEN


@pytest.mark.parametrize(
    ("given", "shown", "short"),
    [
        ({"paper": 10, "tolerance_percent": 10}, [8.0], True),
        ({"paper": 10, "tolerance_percent": 10}, [9.0], False),
        ({"paper": 10, "tolerance_percent": 10}, [2.0, 30.0], False),  # beyond
        ({"paper": 10, "tolerance_percent": 10}, [1.0], True),  # away from it
        ({"at_least": 9}, [8.9], True),
        ({"paper": [9, 12]}, [13], False),
        ({"paper": "wrf"}, ["mcf", "wrf"], False),
        ({"paper": "wrf"}, ["mcf"], True),
    ],
)
def test_sweep_has_to_move_by_the_gap(given: Any, shown: list[Any], short: bool) -> None:
    names = [f"sweep {number}" for number in range(len(shown))]
    accepted = {"figures": ["it"], "reason": "a reason", "sweep": names}
    values = Values.of({"it": given}, [accepted])
    ours = "lbm" if given.get("paper") == "wrf" else 5.0
    figures = dict(zip(names, shown, strict=True))
    assert values.accepted["it"].falls_short(values.expected["it"], ours, figures) is short


def test_gap_from_above_is_closed_downwards() -> None:
    accepted = {"figures": ["it"], "reason": "a reason", "sweep": ["swept"]}
    values = Values.of({"it": {"at_most": 3}}, [accepted])
    reason, expected = values.accepted["it"], values.expected["it"]
    assert reason.falls_short(expected, 5.0, {"swept": 3.5})
    assert not reason.falls_short(expected, 5.0, {"swept": 1.0})


@pytest.mark.parametrize(
    ("given", "ours", "near"),
    [
        ({"paper": 10, "tolerance_percent": 5}, 12.5, True),
        ({"paper": 10, "tolerance_percent": 5}, 12.6, False),
        ({"paper": 10, "tolerance_percent": 50}, 14, False),
        ({"paper": 0, "tolerance_percent": 0}, 0, True),
        ({"paper": 0, "tolerance_percent": 0}, 0.1, False),
        ({"at_most": 3}, 3.1, False),
        ({"paper": "wrf"}, "wrf", True),
    ],
)
def test_near_is_25_percent_of_the_papers_number(given: Any, ours: Any, near: bool) -> None:
    assert Expected.of(given).is_near(ours) is near


@pytest.mark.parametrize(
    "entry",
    [
        {"points": ["it"], "reason": "it is expected"},
        {"points": ["a", "a"], "reason": "twice"},
        {"points": ["a"], "reason": " "},
        {"points": "a", "reason": "no list"},
        {"points": ["a"]},
        {"points": ["a"], "reason": "b", "sweep": []},
    ],
)
def test_wrong_reason_is_refused(entry: Any) -> None:
    with pytest.raises(InfraError):
        Values.of({"it": {"at_most": 3}}, [], [entry])


def test_sample_of_this_repository(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experiments that need no machine, in seconds. tests/hardware/test_experiments.py has all."""
    sample = ["cma-t1", "wsp-cap", "wsp-f1-f2", "wsp-f6-f7", "wsp-t2"]
    monkeypatch.setattr(every, "names", lambda _: sample)
    cli.main(["experiment", "--all", "--tier", "ci", "--out", str(tmp_path), "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert (found["experiments"]["value"], found["experiments_failed"]["value"]) == (5, 0)
    assert found["points_held"]["value"] + found["deviations_accepted"]["value"] > 20
    for name, product in (("wsp-cap", "power/"), ("cma-t1", "media/")):
        kept = json.loads((tmp_path / name / "raw.json").read_text())
        assert any(one.startswith(product) for one in kept["versions"]["products"])

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a campaign finds each planted bug and nothing else, continues after it was killed, and
shrinks what it finds to one command.

Method: the model of the protocol (machine/model), which makes a run in
milliseconds; the real engine, workers and file of results.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lab.campaign import engine as program
from lab.campaign.shrink import replayed_small
from lab.errors import Exit
from lab.paths import repo_dir
from lab.setup.campaign import Campaign
from lab.setup.products import need
from tests.support.rem_runs import figures_of, killed_at, rem

IMAGES = 2_000
LIMIT_S = 300
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine() -> Path:
    return need(Campaign())


def test_model_is_checked_and_all_its_bugs_are_found(engine: Path, tmp_path: Path) -> None:
    done = rem(tmp_path, "campaign", "--model", "--images", str(IMAGES), "--json", limit_s=LIMIT_S)
    figures = figures_of(done)
    assert figures["images"] >= IMAGES
    assert figures["violations"] == figures["mutants_missed"] == 0
    assert figures["mutants"] == len(program.model_mutants(engine))
    page = next(tmp_path.glob("campaign/*.html")).read_text(encoding="utf-8")
    assert "No cut broke a promise" in page


@pytest.mark.in_turn
def test_killed_campaign_continues(tmp_path: Path) -> None:
    words = ["campaign", "--model", "--images", "12000", "--json"]
    results = tmp_path / "campaign" / "model-1.sqlite"
    killed_at(tmp_path, *words, enough=lambda: _slices(results) >= 2, limit_s=LIMIT_S, poll_s=0.05)
    before = _slices(results)
    assert before >= 2, "it did not get so far"
    done = rem(tmp_path, *words, limit_s=LIMIT_S)
    assert done.returncode == Exit.PASS, done.stderr
    assert _slices(results) > before
    with sqlite3.connect(results) as db:
        again = db.execute("SELECT count(*), count(DISTINCT digest) FROM image").fetchone()
    assert again[0] >= again[1]


@pytest.mark.in_turn
def test_violation_is_shrunk_to_a_command_that_shows_it(engine: Path, tmp_path: Path) -> None:
    stop, go = program.synth(engine, tmp_path / "bug", 1, "store-after-flush")
    done = rem(
        tmp_path, "campaign", "--recording", stop, "--images", "500", "--json", limit_s=LIMIT_S
    )
    assert done.returncode == Exit.BROKEN, done.stderr
    line = next(line for line in done.stderr.splitlines() if "./rem replay" in line)
    words = line.split("./rem ")[1].split()
    again = rem(tmp_path, *words, limit_s=LIMIT_S)
    assert again.returncode == Exit.BROKEN
    assert "the power goes here" in again.stderr
    assert "differs" in again.stderr
    # That bug's lines do not touch the consumed image of the other recording.
    assert rem(tmp_path, "replay", go, "--cut", "0", limit_s=LIMIT_S).returncode == Exit.PASS


def test_shrinking_leaves_the_lines_that_matter(engine: Path, tmp_path: Path) -> None:
    """Two lines matter: an early commit word, without any line that it covers."""
    stop, _ = program.synth(engine, tmp_path / "bug", 1, "commit-before-flush")
    work = program.Work(str(engine), str(stop), 1, 0, 1000, 0, 1)
    broken = [
        found
        for found in program.judge(work).outcomes
        if program.broken_text(found["verdict"]) and found["evicted"] > 8
    ]
    assert broken
    small = replayed_small(engine, stop, broken[0]["event"], broken[0]["eviction"])
    assert small["outcome"]["evicted"] < broken[0]["evicted"]
    assert program.broken_text(small["outcome"]["verdict"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["campaign", "--model", "--recording", str(repo_dir())], "no recording.bin"),
        (["campaign", "--recording", "/nowhere"], "no recording.bin"),
        (["campaign", "--model", "--tier", "all"], "choose full or soak"),
        (["replay", "/nowhere", "--cut", "1"], "no recording.bin"),
    ],
)
def test_bad_input_is_refused_in_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    done = rem(tmp_path, *words, limit_s=LIMIT_S)
    assert done.returncode == Exit.USAGE
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_unknown_places_and_evictions_are_refused_in_one_line(engine: Path, tmp_path: Path) -> None:
    stop, _ = program.synth(engine, tmp_path / "model", 1)
    for words in (["--cut", "999999"], ["--cut", "5", "--evict", "some"]):
        done = rem(tmp_path, "replay", stop, *words, limit_s=LIMIT_S)
        assert done.returncode == Exit.USAGE, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def _slices(results: Path) -> int:
    if not results.exists():
        return 0
    try:
        with sqlite3.connect(results) as db:
            return int(db.execute("SELECT count(*) FROM slice").fetchone()[0])
    except sqlite3.Error:
        return 0

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What counts as further from the peer than explained, and ratios of rounds in turn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import cli
from lab.bench import media
from lab.bench.media import REQUIRED_VS_PEER, vs_peer
from lab.bench.media_peer import (
    CASES,
    MESS_CURVE,
    Apart,
    ask,
    beside_mess,
    latency_at,
    verdicts,
)
from lab.errors import Exit, RemError, UsageError
from lab.paths import repo_dir
from lab.result import Result
from lab.setup.media_peer import media_mutants

CASE = replace(CASES[0], bandwidth_percent=3.0, latency_percent=9.0, rows_percent=1.0)


def answer(**ours: float) -> dict[str, Any]:
    both = {
        "bandwidth_bytes_per_ns": 20.0,
        "read_mean_ns": 50.0,
        "reads": 1000,
        "activations": 1000,
        "refreshes": 8,
    }
    return {"ours": {**both, **ours}, "theirs": both}


@pytest.mark.parametrize(
    ("ours", "found"),
    [
        ({}, []),
        ({"bandwidth_bytes_per_ns": 20.5}, []),
        ({"bandwidth_bytes_per_ns": 20.7}, ["bandwidth"]),
        ({"bandwidth_bytes_per_ns": 19.3}, ["bandwidth"]),
        ({"read_mean_ns": 54.0}, []),
        ({"read_mean_ns": 45.0}, ["latency"]),
        ({"activations": 1011}, ["rows"]),
        ({"refreshes": 7}, ["refreshes"]),
        ({"activations": 0, "refreshes": 0}, ["rows", "refreshes"]),
    ],
)
def test_more_than_a_case_explains_is_reported(ours: dict[str, float], found: list[str]) -> None:
    assert verdicts(CASE, answer(**ours)) == found


def test_latency_is_compared_where_there_are_reads() -> None:
    assert Apart.of(answer(reads=0, read_mean_ns=0.0)).latency_percent is None
    assert verdicts(CASE, answer(reads=0, read_mean_ns=0.0)) == []


def test_every_case_has_a_name_of_its_own_and_a_reason() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.why for case in CASES)
    traffics = [case.job()["traffic"] for case in CASES]
    assert all(("pattern" in it) != ("workload" in it) for it in traffics)


def test_bugs_that_the_peer_must_find_are_bugs_of_dram() -> None:
    for patch in media_mutants(repo_dir()).mutants:
        if any(it.promise == "peer" for it in patch.violates):
            assert patch.files == {"models/memory/src/dram.rs"}


def test_ratio_is_the_median_of_rounds_with_its_spread() -> None:
    rounds = [{"peer_s": 2.0, "ocpmem_s": 2.0 / ratio} for ratio in (19, 20, 21, 20, 100)]
    ratio, spread_percent = vs_peer(rounds, "ocpmem")
    assert ratio == pytest.approx(20) and spread_percent > 0
    assert vs_peer(rounds[:1], "ocpmem") == pytest.approx((19, 0))


class _Curve:
    """A memory whose latency grows with its bandwidth, from `idle_ns`, up to `most`: so much of
    random requests, and of streams."""

    def __init__(self, idle_ns: float, most: tuple[float, float]) -> None:
        self.idle_ns = idle_ns
        self.most = dict(zip(("random", "sequential"), most, strict=True))

    def ask(self, _do: str, **job: Any) -> dict[str, Any]:
        share = job["in_flight"] / 2048
        return {
            "bandwidth_bytes_per_ns": self.most[job["pattern"]] * share,
            "read_mean_ns": self.idle_ns + 30.0 * share,
        }


@pytest.mark.parametrize(
    ("idle_ns", "most", "missed"),
    [
        (67.0, (65.0, 120.0), 0),
        (85.0, (65.0, 120.0), 2),
        (67.0, (105.0, 120.0), 1),
        (67.0, (65.0, 95.0), 1),
    ],
)
def test_curve_is_compared_point_by_point(
    idle_ns: float, most: tuple[float, float], missed: int
) -> None:
    result = Result("any")
    curve: Any = _Curve(idle_ns, most)
    assert beside_mess(curve, result) == missed
    assert len(result.figures) == len(MESS_CURVE) + 2


def test_latency_between_two_points_is_on_their_line() -> None:
    points = [(10.0, 60.0), (20.0, 80.0), (30.0, 200.0)]
    assert latency_at(points, 1.0) == 60.0 and latency_at(points, 15.0) == 70.0
    with pytest.raises(RemError, match="no bandwidth"):
        latency_at(points, 31.0)


class _Engine:
    """Answers like the program's, for lives that last."""

    def ask(self, do: str, **job: Any) -> dict[str, Any]:
        if do == "wear":
            return {"lifetime_of_media": 0.96}
        if do == "trace":
            return {"records": 3, "reads": 2, "writes": 1, "check": 1}
        figures = {name: {"value": 1.0} for name in ("energy_pj", "wear_max")}
        return {"requests": job["requests"], "memory": figures}


@pytest.mark.parametrize(("slowest", "ok"), [(2.0, True), (0.9, False)])
def test_bench_is_not_ok_if_a_model_is_too_slow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slowest: float, ok: bool
) -> None:
    """Goal: the verdict is the ratio to the peer, whatever the host's speed."""
    for host in (1.0, 100.0):  # a host so many times slower
        peer_s = host
        ours_s = peer_s / REQUIRED_VS_PEER
        rounds = [{"peer_s": peer_s, "ocpmem_s": ours_s / slowest, "dram_s": ours_s / 9}] * 3
        monkeypatch.setattr(media.Engine, "ready", staticmethod(_Engine))
        monkeypatch.setattr(media, "_beside_peer", lambda _traffic, found=rounds: found)
        result = media.run(1000, tmp_path / "any.trace")
        assert result.ok == ok
        assert result.figures["ocpmem_vs_peer"].value == pytest.approx(10 * slowest)
        assert not [name for name in result.figures if name.endswith("mreq_s")]


def _program(tmp_path: Path, script: str) -> Path:
    program = tmp_path / "rem-media-peer"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def test_answer_is_the_last_line_and_errors_are_one_line(tmp_path: Path) -> None:
    """The peer prints its own words before the answer."""
    text = json.dumps({"ours": {}})
    assert ask(_program(tmp_path, f"echo WARNING; echo '{text}'"), "compare") == {"ours": {}}
    wrong = _program(tmp_path, "echo 'rem-media-peer: job: no such part' >&2; exit 2")
    with pytest.raises(UsageError, match="^job: no such part$"):
        ask(wrong, "compare")
    with pytest.raises(RemError, match="no answer"):
        ask(_program(tmp_path, "exit 134"), "compare")


@pytest.mark.parametrize(
    "words", [["--rtl", "--peer"], ["--peer", "--requests", "5"]], ids=lambda words: " ".join(words)
)
def test_words_that_exclude_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert cli.main(["bench", "media", *words]) == Exit.USAGE
    assert capsys.readouterr().err.splitlines()[-1].startswith("rem: --")

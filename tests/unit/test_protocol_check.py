# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem model`: what the program prints becomes figures, and each of them can make it fail."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.errors import InfraError, UsageError
from lab.protocol import check
from lab.protocol.check import Plan, run_plan
from lab.result import Result

RIGHT = {"machine": "plain", "states": 10, "depth": 3, "broken": {}}
FOUND = {"mutant": "skip-flush", "breaks": "differs", "found": True, **RIGHT}
FOLLOWED = {"recording": "run/recording.bin", "steps": 9, "refused": None}


class Program:
    """Answers in place of `rem-protocol`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = {"check": [RIGHT], "mutants": [FOUND], "trace": [FOLLOWED]}
        self.stderr, self.returncode = "", 0
        self.asked: list[list[str]] = []
        monkeypatch.setattr(check, "need", lambda part: "rem-protocol")
        monkeypatch.setattr(check.run, "run", self)

    def __call__(self, argv: list[str], **_: object) -> SimpleNamespace:
        words = argv[1:]
        self.asked.append(words)
        lines = [json.dumps(line) for line in self.answers[words[0]]]
        return SimpleNamespace(
            ok=not self.returncode,
            returncode=self.returncode,
            stdout="\n".join(lines),
            stderr=self.stderr,
        )


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(monkeypatch)


def values(result: Result) -> dict[str, object]:
    return {name: figure.value for name, figure in result.figures.items()}


def test_everything_right_passes(program: Program) -> None:
    result = run_plan(Plan(boots=2, recordings=(Path("run"),)))
    assert result.ok
    assert values(result) == {
        "boots": 2,
        "machines": 1,
        "states": 10,
        "violations": 0,
        "mutants": 1,
        "mutants_missed": 0,
        "traces": 1,
        "traces_refused": 0,
    }
    assert program.asked == [
        ["check", "--boots", "2"],
        ["mutants", "--boots", "2"],
        ["trace", "run/recording.bin"],
    ]


def test_broken_promise_fails(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program.answers["check"] = [{**RIGHT, "broken": {"differs": ["PowerOn(false)", "Step"]}}]
    result = run_plan(Plan())
    assert not result.ok
    assert values(result)["violations"] == 1
    assert "plain: differs is broken by PowerOn(false); Step" in capsys.readouterr().err


def test_missed_bug_fails(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program.answers["mutants"] = [{**FOUND, "found": False}]
    result = run_plan(Plan())
    assert not result.ok
    assert values(result)["mutants_missed"] == 1
    assert "skip-flush should break differs, and breaks nothing" in capsys.readouterr().err


def test_refused_recording_fails(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program.answers["trace"] = [{**FOLLOWED, "refused": "event 7: Stopped"}]
    result = run_plan(Plan(recordings=(Path("run"),)))
    assert not result.ok
    assert values(result)["traces_refused"] == 1
    assert "no behaviour of the protocol: event 7: Stopped" in capsys.readouterr().err


def test_recording_without_steps_is_no_proof(program: Program) -> None:
    program.answers["trace"] = [{**FOLLOWED, "steps": 0}]
    with pytest.raises(UsageError, match="no step of the protocol"):
        run_plan(Plan(recordings=(Path("run"),)))


def test_without_mutants_none_is_counted(program: Program) -> None:
    result = run_plan(Plan(mutants=False))
    assert result.ok
    assert "mutants" not in values(result)
    assert values(result)["traces"] == 0


def test_program_that_fails_is_reported(program: Program) -> None:
    program.returncode, program.stderr = 4, "rem-protocol: there is no such machine"
    with pytest.raises(InfraError, match="no such machine"):
        run_plan(Plan())

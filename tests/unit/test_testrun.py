# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem test` leaves no tests out.

Goal: a file of tests that lies beside the code is run like those below tests/. Method: the runners
are replaced by one that only notes what it was asked to run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab import testrun
from lab.paths import repo_dir
from lab.testrun import TestRun, Tier
from lab.tidy import project_files


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []

    def note(argv: list[Any], *_: object, **__: object) -> int:
        commands.append([str(word) for word in argv])
        return 0

    monkeypatch.setattr(testrun, "_runner", note)
    monkeypatch.setattr(testrun, "_minutes_by_folder", lambda _: {})
    return commands


def test_every_python_test_is_in_a_folder_that_is_run(asked: list[list[str]]) -> None:
    testrun._pytest(TestRun(Tier.FULL), repo_dir())
    for path in project_files(repo_dir()):
        name = path.relative_to(repo_dir())
        if name.match("test_*.py"):
            assert any(name.is_relative_to(Path(word)) for word in asked[0]), name


def test_the_loader_that_they_run_is_built_before(asked: list[list[str]]) -> None:
    testrun._loader(TestRun(Tier.FULL), repo_dir())
    assert {"test", "all", "tools"} <= set(asked[0])


def test_words_of_the_user_are_all_that_runs(asked: list[list[str]]) -> None:
    testrun._pytest(TestRun(Tier.FULL, ["tests/unit"]), repo_dir())
    assert asked[0][-1] == "tests/unit" and "go/host" not in asked[0]

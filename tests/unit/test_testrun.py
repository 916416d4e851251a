# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem test` leaves no tests out.

Goal: a file of tests beside the code runs like those below tests/. Method: the runners are replaced
by one that only keeps its commands.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from lab.checks import testrun
from lab.checks.shares import CORE, SHARES, crate_folders, pytest_words
from lab.checks.testrun import TestRun, Tier
from lab.paths import repo_dir
from lab.tidy.files import project_files


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []

    def note(argv: list[Any], *_: object, **__: object) -> int:
        commands.append([str(word) for word in argv])
        return 0

    monkeypatch.setattr(testrun, "_runner", note)
    monkeypatch.setattr(testrun, "_minutes_by_folder", lambda _: {})
    return commands


def test_every_python_test_is_in_a_folder_that_is_run(commands: list[list[str]]) -> None:
    for share in SHARES:
        if words := pytest_words(repo_dir(), share):
            testrun._pytest(TestRun(Tier.FULL), share.name, words)
    words = {word for command in commands for word in command if not word.startswith("-")}
    for path in project_files(repo_dir()):
        name = path.relative_to(repo_dir())
        if name.match("test_*.py"):
            assert any(name.is_relative_to(Path(word)) for word in words), name


def test_each_test_runs_in_exactly_one_share() -> None:
    taken = {folder for share in SHARES if share is not CORE for folder in share.tests}
    for word in pytest_words(repo_dir(), CORE):
        if word.startswith("--ignore="):
            assert word.removeprefix("--ignore=") in taken


def test_every_crate_is_in_exactly_one_share() -> None:
    text = (repo_dir() / "Cargo.toml").read_text(encoding="utf-8")
    members = tomllib.loads(text)["workspace"]["members"]
    shared = [folder for share in SHARES for folder in crate_folders(repo_dir(), share)]
    assert sorted(shared) == sorted(members)


def test_loader_that_they_run_is_built_before(commands: list[list[str]]) -> None:
    testrun._loader(TestRun(Tier.FULL))
    assert {"test", "all", "tools"} <= set(commands[0])


def test_only_the_users_tests_run(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testrun, "ensure_all", lambda _: None)
    monkeypatch.setattr(testrun, "ensure_kernel", lambda *_: None)
    testrun.run_tier(Tier.FULL, ["tests/unit"])
    assert [command[-1] for command in commands] == ["tests/unit"]


@pytest.mark.parametrize(("must_find", "failed"), [(True, ["core: pytest"]), (False, [])])
def test_tier_may_have_no_tests_but_a_users_choice_must_find_some(
    must_find: bool, failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testrun, "_runner", lambda *_, **__: testrun.NO_TESTS)
    test = TestRun(Tier.FULL)
    testrun._pytest(test, "core", ["tests"], must_find=must_find)
    assert test.failed == failed

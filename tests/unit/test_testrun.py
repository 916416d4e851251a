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

from lab.checks import junit, testrun
from lab.checks.junit import Tests
from lab.checks.shares import SHARES, crate_folders, pytest_words, share_of
from lab.checks.testrun import TestRun, Tier
from lab.errors import UsageError
from lab.paths import repo_dir
from lab.setup.cargo_tests import TestCrates
from lab.setup.pm import Pm
from lab.setup.products import Kernel
from lab.tidy.files import project_files
from lab.turns import ALL_TURNS_ENV, BEGIN_UNTIL_ENV


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []

    def note(argv: list[Any], *_: object, **__: object) -> int:
        commands.append([str(word) for word in argv])
        return 0

    monkeypatch.setattr(testrun, "_runner", note)
    monkeypatch.setattr(junit, "read", lambda _: {})
    return commands


def test_every_python_test_is_in_a_folder_that_is_run(commands: list[list[str]]) -> None:
    for share in SHARES:
        if words := pytest_words(repo_dir(), share):
            testrun._pytest(TestRun(Tier.FULL), words)
    folders = {word for command in commands for word in command if not word.startswith("-")}
    for path in project_files(repo_dir()):
        name = path.relative_to(repo_dir())
        if name.match("test_*.py"):
            assert any(name.is_relative_to(Path(folder)) for folder in folders), name


def test_files_that_are_left_out_are_not_collected(commands: list[list[str]]) -> None:
    test = TestRun(Tier.FULL, left_out=["tests/vm/test_vm_host.py"])
    testrun._pytest(test, ["tests/vm"])
    assert "--ignore=tests/vm/test_vm_host.py" in commands[0]


def test_each_test_runs_in_exactly_one_share() -> None:
    for path in project_files(repo_dir()):
        name = path.relative_to(repo_dir())
        if not name.match("test_*.py"):
            continue
        shares = [
            share
            for share in SHARES
            if any(name.is_relative_to(word) for word in pytest_words(repo_dir(), share))
        ]
        assert shares == [share_of(str(name.with_suffix("")).replace("/", "."))], name


def test_short_tests_come_last() -> None:
    assert pytest_words(repo_dir(), SHARES[-1])[-1] == "tests/unit"


def test_every_crate_is_in_exactly_one_share() -> None:
    text = (repo_dir() / "Cargo.toml").read_text(encoding="utf-8")
    members = tomllib.loads(text)["workspace"]["members"]
    shared = [folder for share in SHARES for folder in crate_folders(repo_dir(), share)]
    assert sorted(shared) == sorted(members)


def test_setup_builds_what_shares_run() -> None:
    wanted = {name for share in SHARES for name in testrun._crate_names(share)}

    def crates(parts: list[Any]) -> set[str]:
        return {name for part in parts if isinstance(part, TestCrates) for name in part.crates}

    full = testrun.parts_of(Tier.FULL, (), chosen=False)
    assert all(part in full for share in SHARES for part in share.parts)
    assert crates(full) == crates(testrun.parts_of(Tier.QUICK, (), chosen=False)) == wanted
    assert Pm() not in testrun.parts_of(Tier.QUICK, (), chosen=False)
    assert Pm() not in testrun.parts_of(Tier.FULL, ("pm",), chosen=False)
    chosen = testrun.parts_of(Tier.FULL, (), chosen=True)
    assert Kernel() in chosen and Pm() not in chosen and not crates(chosen)


def test_product_that_a_test_makes_is_named(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REM_CACHE", str(tmp_path))
    monkeypatch.setattr(testrun, "need_all", lambda _: None)
    monkeypatch.setattr(testrun, "lint", lambda *_, **__: [])
    for folder in ("locks/pm", "pm/before", "pm/.interrupted.partial", "not-a-kind/other"):
        (tmp_path / folder).mkdir(parents=True)

    def run(test: TestRun, *_: object) -> None:
        (tmp_path / "pm/meanwhile").mkdir(exist_ok=True)
        (tmp_path / "not-a-kind/meanwhile").mkdir(exist_ok=True)

    monkeypatch.setattr(testrun, "_pytest", lambda test, *_, **__: run(test))
    assert testrun.run_tier(Tier.FULL, []).made_by_tests == ["pm/meanwhile"]


def test_loader_that_they_run_is_built_before(commands: list[list[str]]) -> None:
    testrun._loader(TestRun(Tier.FULL))
    assert {"test", "all", "tools"} <= set(commands[0])


@pytest.mark.parametrize("words", [["tests/unit"], []])
def test_it_is_the_turn_of_all_tests_that_a_user_named(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []

    def note(*_: object, env: dict[str, str] | None = None, **__: object) -> int:
        seen.append(env or {})
        return 0

    monkeypatch.setattr(testrun, "_runner", note)
    monkeypatch.setattr(junit, "read", lambda _: {})
    monkeypatch.setattr(testrun, "lint", lambda *_, **__: [])
    monkeypatch.setattr(testrun, "need_all", lambda _: None)
    testrun.run_tier(Tier.FULL, words)
    assert any(ALL_TURNS_ENV in env for env in seen) == bool(words)
    # And they begin, however late it is.
    assert any(BEGIN_UNTIL_ENV in env for env in seen) == (not words)


@pytest.mark.parametrize(("tier", "ends"), [(Tier.FULL, True), (Tier.SOAK, False)])
def test_no_file_begins_late_in_a_run_that_has_a_budget(
    tier: Tier, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(testrun, "_runner", lambda *_, env, **__: seen.append(env) or 0)
    monkeypatch.setattr(junit, "read", lambda _: {})
    testrun._pytest(TestRun(tier), ["tests/vm"])
    assert [BEGIN_UNTIL_ENV in env for env in seen] == [ends]


def test_only_the_users_tests_run(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testrun, "need_all", lambda _: None)
    testrun.run_tier(Tier.FULL, ["tests/unit"])
    assert [command[-1] for command in commands] == ["tests/unit"]


@pytest.mark.parametrize(("must_find", "failed"), [(True, [testrun.PYTEST]), (False, [])])
def test_tier_may_have_no_tests_but_a_users_choice_must_find_some(
    must_find: bool, failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testrun, "_runner", lambda *_, **__: testrun.NO_TESTS)
    test = TestRun(Tier.FULL)
    testrun._pytest(test, ["tests"], must_find=must_find)
    assert test.failed == failed


REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one" time="60"><failure/></testcase>
<testcase classname="tests.unit.test_a" name="test_two" time="30"><skipped/></testcase>
<testcase classname="tests.unit.test_a" name="test_as_root" time="0"><skipped message="needs root"/>
</testcase>
<testcase classname="loader.host.test_boot" name="test_three" time="30"/>
<testcase classname="tests.pm.test_b" name="test_four" time="6"><error/></testcase>
<testcase classname="" name="tests.pm.test_c" time="0"><error/></testcase>
</testsuite></testsuites>"""


def test_report_is_read_by_share(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert junit.read(report) == {}  # pytest may have ended before it wrote one
    report.write_text(REPORT)
    assert junit.read(report) == {"core": Tests(2.0, 1, 2, 1), "pm": Tests(0.1, 2)}


@pytest.mark.parametrize(
    ("tier", "without_root", "failed"),
    [
        (Tier.QUICK, 3, ["core: 1 failed"]),
        (Tier.QUICK, 2, ["core: 1 failed", "core: 3 skipped"]),
        (Tier.FULL, 3, ["core: 1 failed", "core: 3 skipped"]),
        (Tier.SOAK, 3, ["core: 1 failed", "core: 3 skipped"]),
    ],
)
def test_skipped_tests_are_counted_and_a_failure_unless_a_quick_one_needs_root(
    tier: Tier, without_root: int, failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testrun, "workers", lambda: 2)
    test = TestRun(tier)
    test.minutes["core"] = 1.0  # of its crates
    test.add("core", Tests(minutes=3.0, failed=1, skipped=3, without_root=without_root))
    test.add("pm", Tests(minutes=0.5))
    assert test.counts == {"failed": 1, "skipped": 3}
    assert test.minutes == {"core": 2.5, "pm": 0.25}
    assert test.failed == failed


def test_share_can_be_left_out(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testrun, "need_all", lambda _: None)
    monkeypatch.setattr(testrun, "lint", lambda *_: [])
    others = [share.name for share in SHARES if share.name != "media"]
    done = testrun.run_tier(Tier.FULL, [], others)
    assert "media" in done.minutes
    assert "core" not in done.minutes
    with pytest.raises(UsageError, match="--without none-such: .*, core"):
        testrun.run_tier(Tier.FULL, [], ["none-such"])


def test_longest_files_are_named(tmp_path: Path) -> None:
    report = tmp_path / "pytest.xml"
    case = '<testcase classname="{}" name="test_x" time="{}"/>'
    cases = [("tests.a", 60), ("tests.b.TestOfIt", 30), ("tests.b", 90), ("tests.c", 1)]
    text = "".join(case.format(name, time_s) for name, time_s in cases)
    report.write_text(f"<testsuites>{text}</testsuites>", encoding="ascii")
    assert junit.longest_files(report, 2) == [("tests.b", 2.0), ("tests.a", 1.0)]
    assert junit.longest_files(tmp_path / "none.xml", 2) == []

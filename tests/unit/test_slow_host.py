# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A slow host runs half of the files that boot machines, and each has its turn."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from lab.checks import junit, slow_host
from lab.checks.shares import BUDGET_MINUTES, CORE, SET_UP_MINUTES, SHARES, pytest_words
from lab.checks.testrun import TestRun, Tier
from lab.paths import repo_dir
from lab.run import run
from lab.turns import ALWAYS, BEGIN_UNTIL_ENV, runs_always
from tests.support.late import Begun

WORDS = [word for share in SHARES for word in pytest_words(repo_dir(), share)]


def test_halves_are_a_whole() -> None:
    halves = {tuple(slow_host.left_out(repo_dir(), WORDS, str(commit))) for commit in range(20)}
    assert len(halves) == slow_host.TURNS
    first, second = halves
    assert not set(first) & set(second)
    assert abs(len(first) - len(second)) <= 1 < min(len(first), len(second))


def test_what_always_runs_is_never_left_out() -> None:
    left = {name for commit in "abcdef" for name in slow_host.left_out(repo_dir(), WORDS, commit)}
    for top in ALWAYS:
        assert (repo_dir() / top).exists(), top
        assert not any(Path(name).is_relative_to(top) for name in left), top


@pytest.mark.parametrize(
    ("set_up_minutes", "loop_s", "slow"),
    [
        (1.0, slow_host.LOOP_S, False),
        (slow_host.SET_UP_MINUTES_MAX - 1, 1.5 * slow_host.LOOP_S, False),
        (slow_host.SET_UP_MINUTES_MAX + 1, slow_host.LOOP_S, True),
        (1.0, 2 * slow_host.LOOP_S, True),
    ],
)
def test_a_host_is_slow_by_its_set_up_or_by_its_speed(
    monkeypatch: pytest.MonkeyPatch, set_up_minutes: float, loop_s: float, slow: bool
) -> None:
    monkeypatch.setattr(slow_host, "loop_s", lambda: loop_s)
    assert slow_host.is_slow(set_up_minutes) == slow


def test_the_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_host, "LOOP", 1_000)
    assert slow_host.loop_s() > 0


def test_files_begin_in_another_order_at_other_commits() -> None:
    orders = {tuple(slow_host.order(WORDS, str(commit))) for commit in range(20)}
    first = [word for word in WORDS if runs_always(Path(word))]
    assert {"tests/fresh", "tests/unit"} < set(first)
    assert len({words[len(first)] for words in orders}) > 1
    for words in orders:
        assert sorted(words) == sorted(WORDS)
        assert list(words[: len(first)]) == first


def test_the_first_test_of_a_file_decides_whether_it_is_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, other = repo_dir() / "tests/vm/test_vm_host.py", repo_dir() / "tests/vm/test_vm_demo.py"
    always = repo_dir() / "tests/unit/test_slow_host.py"
    begun = Begun()
    monkeypatch.setenv(BEGIN_UNTIL_ENV, str(time.monotonic() + 3600))
    assert begun.may_run(file)
    monkeypatch.setenv(BEGIN_UNTIL_ENV, str(time.monotonic() - 1))
    assert begun.may_run(file) and begun.may_run(always) and not begun.may_run(other)
    monkeypatch.delenv(BEGIN_UNTIL_ENV)
    assert not begun.may_run(other)
    assert Begun().may_run(other)


def test_files_that_are_too_late_are_named_and_nothing_else_is_excused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: pytest itself, with the hook of tests/, in a folder of two files."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "from lab.turns import TOO_LATE\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_setup(item):\n"
        "    if 'late' in item.path.name: pytest.skip(TOO_LATE)\n"
    )
    (tmp_path / "test_late.py").write_text("def test_a(): assert 0\ndef test_b(): assert 0\n")
    (tmp_path / "test_other.py").write_text(
        "import pytest\ndef test_c(): pytest.skip('no reason')\ndef test_d(): pass\n"
    )
    report = tmp_path / "report.xml"
    run(
        [sys.executable, "-m", "pytest", f"--junitxml={report}", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={"PYTHONPATH": str(repo_dir())},
        check=False,
    )
    assert junit.too_late(report) == ["test_late.py"]
    test = TestRun(Tier.FULL)
    for share, tests in junit.read(report).items():
        test.add(share, tests)
    assert test.failed == [f"{CORE.name}: 3 skipped"]
    assert junit.read(report)[CORE.name].too_late == 2


def test_set_up_may_take_its_share() -> None:
    assert SET_UP_MINUTES < slow_host.SET_UP_MINUTES_MAX < BUDGET_MINUTES / 2
    assert slow_host.SET_UP_MINUTES_MAX < slow_host.BEGIN_MINUTES_MAX < BUDGET_MINUTES - 10

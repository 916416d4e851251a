# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A slow host runs half of the files that boot machines, and each has its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.checks import slow_host
from lab.checks.shares import BUDGET_MINUTES, SET_UP_MINUTES, SHARES, pytest_words
from lab.paths import repo_dir

WORDS = [word for share in SHARES for word in pytest_words(repo_dir(), share)]


def test_halves_are_a_whole() -> None:
    halves = {tuple(slow_host.left_out(repo_dir(), WORDS, str(commit))) for commit in range(20)}
    assert len(halves) == slow_host.TURNS
    first, second = halves
    assert not set(first) & set(second)
    assert abs(len(first) - len(second)) <= 1 < min(len(first), len(second))


def test_what_always_runs_is_never_left_out() -> None:
    left = {name for commit in "abcdef" for name in slow_host.left_out(repo_dir(), WORDS, commit)}
    for top in slow_host.ALWAYS:
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


def test_set_up_may_take_its_share() -> None:
    assert SET_UP_MINUTES < slow_host.SET_UP_MINUTES_MAX < BUDGET_MINUTES / 2

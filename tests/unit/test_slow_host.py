# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A slow host runs half of the files that boot machines, and each has its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.checks import slow_host
from lab.checks.shares import BUDGET_MINUTES, SET_UP_MINUTES, SHARES, pytest_words
from lab.checks.testrun import SET_UP, TestRun, Tier
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
    ("tier", "minutes", "slow"),
    [
        (Tier.FULL, SET_UP_MINUTES - 1, False),
        (Tier.FULL, SET_UP_MINUTES + 1, True),
        (Tier.QUICK, SET_UP_MINUTES + 1, False),
        (Tier.SOAK, BUDGET_MINUTES, False),
    ],
)
def test_a_host_is_slow_by_its_set_up(tier: Tier, minutes: float, slow: bool) -> None:
    assert TestRun(tier, minutes={SET_UP: minutes}).is_slow == slow

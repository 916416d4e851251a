# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests that take turns in the full tier."""

from __future__ import annotations

import pytest

from lab.turns import rotation


def take_turns(items: list[pytest.Item], commit: str) -> None:
    """Of a module's tests that take turns, the commit chooses half; the others are for soak."""
    waiting: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("in_turn"):
            waiting.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for tests in waiting.values():
        names = sorted(test.nodeid for test in tests)
        chosen = rotation(names, commit, (len(names) + 1) // 2)
        for test in tests:
            if test.nodeid not in chosen:
                test.add_marker(pytest.mark.soak)

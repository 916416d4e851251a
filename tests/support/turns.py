# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests that take turns in the full tier."""

from __future__ import annotations

import pytest

from lab.turns import rotation

SHARE = 3  # one test of so many runs in the full tier


def take_turns(items: list[pytest.Item], commit: str) -> None:
    """Of all tests that take turns, the commit chooses a third; the others are for soak."""
    waiting = [item for item in items if item.get_closest_marker("in_turn")]
    names = sorted(test.nodeid for test in waiting)
    chosen = rotation(names, commit, (len(names) + SHARE - 1) // SHARE)
    for test in waiting:
        if test.nodeid not in chosen:
            test.add_marker(pytest.mark.soak)

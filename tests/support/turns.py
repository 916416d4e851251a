# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests that take turns in the full tier.

`in_turn` is for negative proofs that boot a machine of their own, and for further cases of what
another test shows at each commit. `in_turn("name")`: those of one file with this name have their
turn together, since they share a machine.
"""

from __future__ import annotations

import pytest

from lab.turns import turn

SHARE = 40  # one turn of so many runs in the full tier


def take_turns(items: list[pytest.Item], commit: str) -> None:
    """The commit chooses a fortieth of all turns, spread over the files; others are for soak."""
    turns = {item.nodeid: name for item in items if (name := _turn_of(item))}
    chosen = set(sorted(set(turns.values()))[turn(commit, SHARE) :: SHARE])
    for item in items:
        if turns.get(item.nodeid, "") not in {"", *chosen}:
            item.add_marker(pytest.mark.soak)


def _turn_of(item: pytest.Item) -> str:
    """Name of a test's turn; empty if it takes none."""
    mark = item.get_closest_marker("in_turn")
    if mark is None:
        return ""
    return f"{item.nodeid.partition('::')[0]}::{mark.args[0]}" if mark.args else item.nodeid

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests that take turns in the full tier.

`in_turn` is for negative proofs that boot a machine of their own, for further cases of what another
test shows at each commit, and for what takes minutes. `in_turn("name")`: those of one file with
this name have their turn together, since they share a machine.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

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


def most_in_turn(values: Iterable[Any], always: Container[Any]) -> list[Any]:
    """Parameters of a test, checks or names: those that are not *always* run have a turn each."""
    return [
        pytest.param(
            value,
            id=getattr(value, "__name__", None),
            marks=() if value in always else pytest.mark.in_turn,
        )
        for value in values
    ]


def _turn_of(item: pytest.Item) -> str:
    """Name of a test's turn; empty if it takes none."""
    mark = item.get_closest_marker("in_turn")
    if mark is None:
        return ""
    return f"{item.nodeid.partition('::')[0]}::{mark.args[0]}" if mark.args else item.nodeid

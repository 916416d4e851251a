# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests that take turns in the full tier."""

from __future__ import annotations

from typing import Any

from tests.support.turns import take_turns


class Item:
    """What the hook uses of a test."""

    def __init__(self, nodeid: str, turns: bool) -> None:
        self.nodeid, self.turns, self.soak = nodeid, turns, False

    def get_closest_marker(self, name: str) -> bool:
        return self.turns and name == "in_turn"

    def add_marker(self, mark: Any) -> None:
        self.soak = mark.name == "soak"


def chosen(commit: str) -> set[str]:
    items = [Item(f"tests/test_{n % 2}.py::test_{n}", turns=True) for n in range(5)]
    items.append(Item("tests/test_a.py::test_always", turns=False))
    take_turns(items, commit)  # type: ignore[arg-type]
    return {item.nodeid for item in items if not item.soak}


def test_third_has_its_turn_and_everything_has_one() -> None:
    turns = [chosen(str(commit)) for commit in range(50)]
    assert {len(turn) for turn in turns} == {3}  # two of five, and the one that takes no turns
    assert len(set().union(*turns)) == 6

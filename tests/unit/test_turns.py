# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests that take turns in the full tier."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.turns import SHARE, take_turns

COMMITS = 400  # so many that each turn comes
ALONE, TOGETHER = pytest.mark.in_turn, pytest.mark.in_turn("group")


class Item:
    """What the hook uses of a test."""

    def __init__(self, nodeid: str, turn: pytest.MarkDecorator | None) -> None:
        self.nodeid, self.turn, self.soak = nodeid, turn, False

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.turn.mark if self.turn and name == "in_turn" else None

    def add_marker(self, mark: Any) -> None:
        self.soak = mark.name == "soak"


def chosen(commit: str) -> set[str]:
    items = [Item(f"tests/test_{n % 2}.py::test_{n}", ALONE) for n in range(2 * SHARE - 1)]
    items += [Item(f"tests/test_g.py::test_{n}", TOGETHER) for n in range(3)]
    items.append(Item("tests/test_a.py::test_always", None))
    take_turns(items, commit)  # type: ignore[arg-type]
    return {item.nodeid for item in items if not item.soak}


def test_a_part_has_its_turn_and_everything_has_one() -> None:
    turns = [chosen(str(commit)) for commit in range(COMMITS)]
    assert all("tests/test_a.py::test_always" in turn for turn in turns)
    # 2 * SHARE turns, of which one is a group of three.
    assert {len(turn) for turn in turns} == {1 + 2, 1 + 1 + 3}
    assert len(set().union(*turns)) == 2 * SHARE - 1 + 3 + 1


def test_group_has_its_turn_together() -> None:
    group = {f"tests/test_g.py::test_{n}" for n in range(3)}
    assert {len(group & chosen(str(commit))) for commit in range(COMMITS)} == {0, 3}

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --heap`: what counts as a violation, and as a planted bug that was found."""

from __future__ import annotations

from typing import Any

import pytest

from lab.campaign.heap import MUTANTS, OPERATIONS, POLICIES, UNFLUSHED, Row, figures, rows
from lab.errors import InfraError, UsageError


def window(row: Row, broken: str = "") -> dict[str, Any]:
    return {"policy": row.policy, "operations": OPERATIONS, "images": 9, "broken": broken}


def test_all_policies_come_first_and_one_without_flushes_last() -> None:
    every = rows("all")
    assert [str(row) for row in every[: len(POLICIES)]] == list(POLICIES)
    assert len(every) == len(POLICIES) + len(MUTANTS) + 1
    assert every[-1].policy == UNFLUSHED
    assert rows("none") == every[: len(POLICIES)]
    with pytest.raises(UsageError, match="choose all, none or"):
        rows("NoSuchBug")


def test_violation_or_a_bug_that_is_missed_is_no_pass() -> None:
    plain, planted = Row("FoC+RL"), Row("FoC+RL", "SkipCommitFence")
    good = figures([plain, planted], [window(plain), window(planted, "lost")])
    assert good.ok
    assert good.figures["images"].value == 9
    broken = figures([plain, planted], [window(plain, "lost"), window(planted, "lost")])
    assert not broken.ok
    assert broken.figures["violations"].value == 1
    missed = figures([plain, planted], [window(plain), window(planted)])
    assert not missed.ok
    assert missed.figures["mutants_missed"].value == 1


def test_windows_that_are_not_what_was_asked_for_are_no_verdict() -> None:
    row = Row("FoC+RL")
    with pytest.raises(InfraError, match="a window of"):
        figures([row], [window(Row("FoC+UL"))])
    with pytest.raises(InfraError, match="transactions of"):
        figures([row], [window(row) | {"operations": OPERATIONS - 1}])

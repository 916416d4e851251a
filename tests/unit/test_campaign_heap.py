# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --heap`: what counts as a violation, and as a planted bug that was found."""

from __future__ import annotations

from typing import Any

import pytest

from lab.campaign.heap import OPERATIONS, POLICIES, UNFLUSHED, Row, figures, mutants, rows
from lab.errors import InfraError, UsageError


def window(row: Row, verdict: str = "") -> dict[str, Any]:
    return {
        "policy": row.policy,
        "operations": OPERATIONS,
        "images": 9,
        "verdict": verdict,
        "broken": "details" if verdict else "",
    }


def test_all_policies_come_first_and_one_without_flushes_last() -> None:
    every = rows("all")
    assert [str(row) for row in every[: len(POLICIES)]] == list(POLICIES)
    assert len(every) == len(POLICIES) + len(mutants()) + 1
    assert every[-1].policy == UNFLUSHED
    assert rows("none") == every[: len(POLICIES)]
    with pytest.raises(UsageError, match="choose all, none or"):
        rows("no-such-bug")


def test_violation_or_missed_bug_fails() -> None:
    plain, planted = Row("FoC+RL"), Row("FoC+RL", "skip-commit-fence")
    good = figures([plain, planted], [window(plain), window(planted, "not-atomic")])
    assert good.ok
    assert good.figures["images"].value == 9
    broken = figures([plain, planted], [window(plain, "not-atomic"), window(planted, "not-atomic")])
    assert not broken.ok
    assert broken.figures["violations"].value == 1
    missed = figures([plain, planted], [window(plain), window(planted)])
    assert not missed.ok
    assert missed.figures["mutants_missed"].value == 1


def test_bug_that_another_verdict_finds_is_missed() -> None:
    plain, planted = Row("FoC+RL"), Row("FoC+RL", "skip-commit-fence")
    result = figures([plain, planted], [window(plain), window(planted, "does-not-open")])
    assert not result.ok
    assert result.figures["mutants_missed"].value == 1
    # The policy without surviving caches has no verdict of its own: any one counts.
    unflushed = Row(UNFLUSHED)
    assert figures([plain, unflushed], [window(plain), window(unflushed, "does-not-open")]).ok


def test_wrong_window_is_no_verdict() -> None:
    row = Row("FoC+RL")
    with pytest.raises(InfraError, match="a window of"):
        figures([row], [window(Row("FoC+UL"))])
    with pytest.raises(InfraError, match="transactions of"):
        figures([row], [window(row) | {"operations": OPERATIONS - 1}])

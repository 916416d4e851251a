# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: no cut of any boot breaks a promise of the protocol (invariants 1 to 10), and each bug
that is planted in its model breaks the one that it names.

Method: `rem model`, which looks at every state of 4 power-ons and resets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rem_runs import figures_of, rem

LIMIT_S = 1200


@pytest.mark.full
@pytest.mark.timeout(LIMIT_S)
def test_no_cut_of_four_boots_breaks_a_promise(tmp_path: Path) -> None:
    figures = figures_of(rem(tmp_path, "model", "--json", limit_s=LIMIT_S))
    assert figures["boots"] == 4
    assert figures["machines"] == 9
    assert figures["states"] > 4_000_000
    assert figures["violations"] == 0
    assert figures["mutants"] >= 40
    assert figures["mutants_missed"] == 0

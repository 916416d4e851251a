# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cut of a whole guest without Stop leaves a committed prefix of a heap.

Goal: the library's own instructions, in the binary that passed the crash tests, on persistent
memory under volatile caches. Method: `rem campaign --heap` records the guest and recovers each
image that a cut may leave. The negative proofs: planted bugs, and a policy that does not flush.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign import heap
from tests.support.rem_runs import figures_of, rem

LIMIT_S = 3000
IMAGES_MIN = 10_000
pytestmark = [pytest.mark.soak, pytest.mark.timeout(LIMIT_S)]


def test_no_cut_breaks_a_transaction_and_each_planted_bug_is_found(tmp_path: Path) -> None:
    figures = figures_of(rem(tmp_path, "campaign", "--heap", "--json", limit_s=LIMIT_S))
    assert figures["violations"] == 0
    assert figures["operations"] == len(heap.POLICIES) * heap.OPERATIONS
    assert figures["images"] >= IMAGES_MIN
    assert figures["mutants"] == len(heap.mutants()) + 1 >= 11
    assert figures["mutants_missed"] == 0

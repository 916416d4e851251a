# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whatever is done with segments and blocks is done or not done at each cut of a whole guest.

Goal: the modules, not only their core, store, flush and fence in the right order. Method:
`rem campaign --pm`: the guest is recorded, each image that a cut may leave is opened. Its own
proof: the same with planted bugs, each of which must be found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign import pm
from tests.support.rem_runs import figures_of, rem

LIMIT_S = 3000
IMAGES_MIN = 10_000
OPERATIONS_MIN = 50
pytestmark = [pytest.mark.soak, pytest.mark.timeout(LIMIT_S)]


def test_no_cut_breaks_what_was_promised_and_each_planted_bug_is_found(tmp_path: Path) -> None:
    figures = figures_of(rem(tmp_path, "campaign", "--pm", "--json", limit_s=LIMIT_S))
    assert figures["violations"] == 0
    assert figures["images"] >= IMAGES_MIN
    assert figures["operations"] >= OPERATIONS_MIN
    assert figures["mutants"] == len(pm.mutants()) >= 10
    assert figures["mutants_missed"] == 0

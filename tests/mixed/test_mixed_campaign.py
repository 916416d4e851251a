# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --memtype mixed`: at any cut a program that resumes has its own memory and its
files as they were last changed, and each planted bug is found by the verdict that it names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.mixed import NAMES
from tests.support.rem_runs import figures_of, rem

LIMIT_S = 7200


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S + 100)
def test_no_page_is_older_than_its_last_change_at_any_cut(tmp_path: Path) -> None:
    words = ("campaign", "--memtype", "mixed", "--boots", "30", "--json")
    figures = figures_of(rem(tmp_path, *words, limit_s=LIMIT_S))
    assert figures["violations"] == figures["disagreements"] == 0
    assert figures["mutants"] == len(NAMES)
    assert figures["mutants_missed"] == figures["found_by_other"] == 0
    assert figures["booted_whole"] == 30

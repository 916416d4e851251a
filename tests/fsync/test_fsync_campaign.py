# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --persist memory` and `flushes`: at any cut each fsync that had ended is found, and
each planted bug by the verdict that it names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.persist import FLUSH_BUGS, NAMES
from tests.support.rem_runs import figures_of, rem

LIMIT_S = 5000


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S + 100)
@pytest.mark.parametrize(("persist", "bugs"), [("memory", NAMES), ("flushes", FLUSH_BUGS)])
def test_no_fsync_is_lost_at_any_cut(tmp_path: Path, persist: str, bugs: tuple[str, ...]) -> None:
    words = ("campaign", "--persist", persist, "--boots", "30", "--json")
    figures = figures_of(rem(tmp_path, *words, limit_s=LIMIT_S))
    assert figures["violations"] == figures["disagreements"] == figures["lost_fsynced"] == 0
    assert figures["mutants"] == len(bugs)
    assert figures["mutants_missed"] == figures["found_by_other"] == 0
    assert figures["booted_whole"] == 30

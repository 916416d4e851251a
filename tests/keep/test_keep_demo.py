# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo keep`: every promise is kept, and every planted fault is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rem_runs import figures_of, rem

LIMIT_S = 1500


@pytest.mark.soak
@pytest.mark.timeout(1600)
def test_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    words = ("demo", "keep", "--name", "test-demo-keep", "--json")
    figures = figures_of(rem(tmp_path, *words, limit_s=LIMIT_S))
    assert figures["resumed"] == 1
    assert figures["lost_answers"] == figures["planted_missed"] == 0

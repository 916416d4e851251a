# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo server`: every promise is kept, and a forged image is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rem_runs import figures_of, rem

LIMIT_S = 3000


@pytest.mark.soak
@pytest.mark.timeout(3100)
def test_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    words = ("demo", "server", "--name", "test-demo-server", "--json")
    figures = figures_of(rem(tmp_path, *words, limit_s=LIMIT_S))
    assert figures["resumed"] == 1
    assert figures["lost_writes"] == figures["units_changed"] == figures["forged_entered"] == 0

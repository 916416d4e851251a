# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo vm`: every promise is kept, and every planted fault is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rem_runs import figures_of, rem


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    figures = figures_of(rem(tmp_path, "demo", "vm", "--name", "test-demo-vm", "--json"))
    assert figures["resumed"] == 1
    assert figures["lost_answers"] == figures["planted_missed"] == 0

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on RISC-V, too, a cut anywhere in the loader, Go, running or Stop leaves an image that is
entered whole, or a cold boot with the right reason (invariants 1, 2, 3 and 6); bugs planted in what
both instruction sets share break that there as well.

Method: that of tests/hardware/test_campaign_machine.py, on a machine of RISC-V.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.mutants import BOOT, IMAGES, Board, control, look_for, machine_mutants
from lab.setup.campaign import Campaign
from lab.setup.products import need
from lab.turns import head, rotation
from tests.support.rem_runs import figures_of, rem

IMAGES_IN_CI, BOOTS, WHOLE = 1_000, 6, 3
BOOTS_IN_SOAK = 30
LIMIT_S = 2400
BOARD = Board(isa="riscv64")
BUGS = machine_mutants("riscv64")
CHOSEN = rotation(BUGS, head(), 1)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    ("boots", "whole"),
    [
        pytest.param(BOOTS, WHOLE, marks=[pytest.mark.full, pytest.mark.in_turn]),
        pytest.param(BOOTS_IN_SOAK, BOOTS_IN_SOAK, marks=pytest.mark.soak),
    ],
)
def test_no_cut_of_a_power_cycle_on_riscv_breaks_a_promise(
    tmp_path: Path, boots: int, whole: int
) -> None:
    words = ["--arch", "riscv64", "--images", str(IMAGES_IN_CI), "--mutants", "none", "--json"]
    words += ["--boots", str(boots), "--whole", str(whole)]
    figures = figures_of(rem(tmp_path, "campaign", *words, limit_s=LIMIT_S))
    assert figures["images"] >= IMAGES_IN_CI
    assert figures["violations"] == figures["disagreements"] == figures["unseen_lines"] == 0
    assert figures["traces"] == 1
    assert figures["traces_refused"] == 0
    assert (figures["booted"], figures["booted_whole"]) == (boots, whole)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in CHOSEN else pytest.mark.soak)
        for name in BUGS
    ],
)
def test_planted_bug_is_found_by_its_verdict_on_riscv(name: str, tmp_path: Path) -> None:
    found = look_for(need(Campaign()), tmp_path, name, 1, BOARD)
    assert found.by_expected is not None, str(found)


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("shown_by", [IMAGES, BOOT])
def test_builds_with_bugs_of_riscv_pass_while_none_is_on(tmp_path: Path, shown_by: str) -> None:
    assert control(need(Campaign()), tmp_path, shown_by, 1, BOARD) == ()

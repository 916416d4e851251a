# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: of a machine that UEFI boots, too, a cut anywhere in the loader, Go, running or Stop
leaves an image that is entered whole, or a cold boot with the right reason (invariants 1, 2, 3 and
6).

Method: `rem campaign --firmware uefi` records a machine that OVMF starts, and boots images of its
cuts by OVMF. Bugs planted in the loader's build for UEFI must be found by their verdicts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign.mutants import Board, in_loader, look_for, machine_mutants, patches
from lab.setup.campaign import Campaign
from lab.setup.products import need
from tests.support.rem_runs import figures_of, rem

IMAGES, BOOTS, WHOLE = 1_000, 4, 2
LIMIT_S = 2400
BOARD = Board(firmware="uefi")
LOADER_BUGS = [name for name in machine_mutants() if in_loader(patches()[name])]

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(LIMIT_S)]


def test_no_cut_of_a_power_cycle_through_uefi_breaks_a_promise(tmp_path: Path) -> None:
    words = ["--firmware", "uefi", "--images", str(IMAGES), "--mutants", "none", "--json"]
    words += ["--boots", str(BOOTS), "--whole", str(WHOLE)]
    figures = figures_of(rem(tmp_path, "campaign", *words, limit_s=LIMIT_S))
    assert figures["images"] >= IMAGES
    assert figures["violations"] == figures["disagreements"] == figures["unseen_lines"] == 0
    assert (figures["traces"], figures["traces_refused"]) == (1, 0)
    assert (figures["booted"], figures["booted_whole"]) == (BOOTS, WHOLE)
    console = (tmp_path / "campaign" / "run-uefi-1" / "console.log").read_text(errors="replace")
    assert "BdsDxe: starting" in console and "GO: resume sequence" in console
    assert "no supply" not in console, "the loader has asked for power and charge"


@pytest.mark.parametrize("name", LOADER_BUGS)
def test_bug_planted_in_the_loader_is_found_through_uefi(name: str, tmp_path: Path) -> None:
    found = look_for(need(Campaign()), tmp_path, name, seed=1, board=BOARD)
    assert found.by_expected is not None, str(found)

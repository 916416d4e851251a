# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: after a cut anywhere in the loader, Go, running or Stop of a machine whose memory
controller's queue is lost with the power (domain `none`), the committed image is entered or a cold
boot has the right reason (invariants 1, 2, 3 and 6); and a Stop that reports what the controller
has not written yet breaks that.

Method: `rem campaign --caches wsp-x5650-none`. The recording has each line twice, when the
controller accepted it and when it wrote it; a cut leaves any number of the accepted lines, in their
order. The negative proofs: `report-unwritten`, which is a bug on such a machine only, and bugs that
the same campaign must find on any machine.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lab.campaign.mutants import (
    IMAGES,
    Board,
    caches_of,
    control,
    look_for,
    recorded,
    violations,
)
from lab.campaign.record import PROFILE, record
from lab.setup.campaign import Campaign
from lab.setup.products import need
from tests.support.rem_runs import figures_of, rem

UNCOVERED = "wsp-x5650-none"
BOARD = Board(UNCOVERED)
IMAGES_MIN = 1_000
LIMIT_S = 2400

pytestmark = pytest.mark.timeout(LIMIT_S)


@pytest.mark.soak
def test_no_cut_breaks_a_promise_without_a_persistence_domain(tmp_path: Path) -> None:
    words = ["--caches", UNCOVERED, "--images", str(IMAGES_MIN), "--boots", "4", "--whole", "2"]
    words += ["--mutants", "none", "--json"]
    figures = figures_of(rem(tmp_path, "campaign", *words, limit_s=LIMIT_S))
    assert figures["images"] >= IMAGES_MIN
    assert figures["violations"] == figures["disagreements"] == figures["unseen_lines"] == 0
    assert figures["booted"] == 4


@pytest.mark.in_turn
@pytest.mark.full
def test_report_before_the_queue_is_written_is_found(tmp_path: Path) -> None:
    engine, name = need(Campaign()), "report-unwritten"
    assert caches_of(name, PROFILE) == UNCOVERED
    found = look_for(engine, tmp_path, name, seed=1)
    assert found.by_expected is not None, str(found)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["skip-fence", "reported-early", "skip-flush"])
def test_bugs_of_any_machine_are_found_without_a_domain(name: str, tmp_path: Path) -> None:
    found = look_for(need(Campaign()), tmp_path, name, seed=1, board=BOARD)
    assert found.by_expected is not None, str(found)


@pytest.mark.soak
def test_build_with_planted_bugs_passes_without_a_domain(tmp_path: Path) -> None:
    assert control(need(Campaign()), tmp_path, IMAGES, seed=1, board=BOARD) == ()


@pytest.mark.soak
def test_early_report_is_no_bug_where_the_queue_outlives_power(tmp_path: Path) -> None:
    """So it is the domain that the campaign goes by."""
    machine = replace(
        recorded(tmp_path, "report-unwritten"),
        name=f"campaign-covered-{os.getpid()}",
        profile="wsp-x5650",
    )
    assert violations(need(Campaign()), [record(machine)], seed=1) == ()

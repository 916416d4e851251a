# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: after a cut anywhere in the loader, Go, running or Stop of a machine under load, with any
of its lines evicted early or torn, the committed image is entered or a cold boot has the right
reason (invariants 1, 2, 3 and 6); and bugs planted in kernel and loader break that.

Method: `rem campaign` records one power cycle of a machine with volatile caches, checks 2,000
images of it and boots 12: of each place and decision the rarest class first. Four of them boot to
the end, with the disk as it was at the cut: what was acknowledged as durable is there, and the file
system is clean (invariant 4); in soak all do. Then the same with each planted bug; bugs that no
image shows are found by the boot alone.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from lab.campaign.mutants import (
    BOOT,
    DIRECT,
    IMAGES,
    NO_FLUSH,
    NONE,
    boot_once,
    control,
    look_for,
    machine_mutants,
)
from lab.campaign.record import Recorded
from lab.campaign.workload import Workload
from lab.setup.campaign import Campaign
from lab.setup.products import need
from lab.turns import head, rotation
from tests.support.rem_runs import figures_of, killed_at, rem

IMAGES_IN_CI, BOOTS, WHOLE = 2_000, 10, 4
WHOLE_IN_SOAK = 60
CHAIN_IMAGES = 25_000  # of three cycles
LIMIT_S = 2400
IN_CI = 1
CHOSEN = rotation(machine_mutants(), head(), IN_CI)


@pytest.mark.full
@pytest.mark.in_turn
@pytest.mark.timeout(LIMIT_S)
def test_no_cut_of_a_machines_power_cycle_breaks_a_promise(tmp_path: Path) -> None:
    words = ["--images", str(IMAGES_IN_CI), "--boots", str(BOOTS), "--whole", str(WHOLE)]
    words += ["--mutants", "none", "--json"]
    figures = figures_of(rem(tmp_path, "campaign", *words, limit_s=LIMIT_S))
    assert figures["images"] >= IMAGES_IN_CI
    assert figures["violations"] == figures["disagreements"] == 0
    assert figures["traces"] == 1
    assert figures["traces_refused"] == 0
    assert figures["booted"] == BOOTS
    assert figures["booted_whole"] == WHOLE


@pytest.mark.soak
@pytest.mark.timeout(6 * LIMIT_S)
def test_many_classes_of_images_boot_as_the_engine_decided(tmp_path: Path) -> None:
    """60 complete boots, each of another class; a run has from thirty to a few hundred classes."""
    words = ["--images", str(IMAGES_IN_CI), "--boots", str(WHOLE_IN_SOAK)]
    words += ["--mutants", "none", "--json"]
    figures = figures_of(rem(tmp_path, "campaign", *words, limit_s=6 * LIMIT_S))
    assert figures["violations"] == figures["disagreements"] == 0
    assert figures["booted_whole"] == WHOLE_IN_SOAK
    assert figures["classes_unbooted"] == max(0, figures["classes"] - WHOLE_IN_SOAK)
    assert figures["mix_missing"] == 0


@pytest.mark.soak
@pytest.mark.timeout(3 * LIMIT_S)
def test_killed_chain_of_cycles_continues(tmp_path: Path) -> None:
    words = ["campaign", "--tier", "soak", "--mutants", "none", "--boots", "1"]
    words += ["--images", str(CHAIN_IMAGES), "--json"]
    results = tmp_path / "campaign" / "soak-1.sqlite"
    killed_at(tmp_path, *words, enough=lambda: _cycles(results) >= 1, limit_s=LIMIT_S, poll_s=0.5)
    before = _cycles(results)
    assert before >= 1, "it was killed before its first cycle"
    figures = figures_of(rem(tmp_path, *words, limit_s=LIMIT_S))
    assert figures["images"] >= CHAIN_IMAGES
    assert figures["violations"] == figures["disagreements"] == figures["mix_missing"] == 0
    assert _cycles(results) > before


def _cycles(results: Path) -> int:
    if not results.exists():
        return 0
    try:
        with sqlite3.connect(results) as db:
            row = db.execute("SELECT value FROM campaign WHERE name = 'cycles'").fetchone()
    except sqlite3.Error:
        return 0
    return int(row[0]) if row else 0


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in CHOSEN else pytest.mark.soak)
        for name in machine_mutants()
    ],
)
def test_planted_bug_is_found_by_its_verdict(name: str, tmp_path: Path) -> None:
    found = look_for(need(Campaign()), tmp_path, name, seed=1)
    assert found.by_expected is not None, str(found)


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("shown_by", [IMAGES, BOOT])
def test_builds_with_planted_bugs_pass_while_none_is_on(tmp_path: Path, shown_by: str) -> None:
    assert control(need(Campaign()), tmp_path, shown_by, seed=1) == ()


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(("load", "stops"), [(NO_FLUSH, 3), (DIRECT, 1)])
def test_without_a_bug_a_boot_finds_nothing(tmp_path: Path, load: Workload, stops: int) -> None:
    healthy = Recorded(tmp_path, f"campaign-healthy-{os.getpid()}", mutant=NONE)
    assert boot_once(healthy, load, stops) is None

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: after a cut anywhere in the loader, Go, running or Stop of a machine under load, with any
of its lines evicted early or torn, the committed image is entered or a cold boot has the right
reason (invariants 1, 2, 3 and 6); and bugs planted in kernel and loader break that.

Method: `rem campaign` records one power cycle of a machine with volatile caches, judges 2,000
images of it and boots some: one of each class, and others. Then the same with each planted bug.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.campaign.mutants import machine_mutants, rotation, run_machine
from lab.errors import Exit
from lab.paths import repo_dir
from lab.setup.campaign import ensure_campaign
from lab.setup.progress import Progress

IMAGES, BOOTS = 2_000, 12
LIMIT_S = 1200
IN_CI = 5
COMMIT = subprocess.run(
    ["git", "rev-parse", "HEAD"], cwd=repo_dir(), capture_output=True, text=True, check=False
).stdout.strip()
CHOSEN = rotation(machine_mutants(), COMMIT, IN_CI)


@pytest.mark.full
@pytest.mark.timeout(LIMIT_S)
def test_no_cut_of_a_machines_power_cycle_breaks_a_promise(tmp_path: Path) -> None:
    words = ["--images", str(IMAGES), "--boots", str(BOOTS), "--mutants", "none", "--json"]
    done = subprocess.run(
        [repo_dir() / "rem", "campaign", *words],
        env={**os.environ, "REM_STATE": str(tmp_path)},
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == Exit.PASS, done.stderr
    figures = {k: v["value"] for k, v in json.loads(done.stdout)["figures"].items()}
    assert figures["images"] >= IMAGES
    assert figures["violations"] == figures["disagreements"] == 0
    assert figures["booted"] == BOOTS
    assert figures["classes_unbooted"] == 0


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name in CHOSEN else pytest.mark.soak)
        for name in machine_mutants()
    ],
)
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    (found,) = run_machine(ensure_campaign(Progress()), tmp_path, [name], seed=1)
    assert not found.missed

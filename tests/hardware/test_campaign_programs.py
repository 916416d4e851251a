# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariants 4 and 10): whatever program runs in the guest, a cut breaks none of its
promises, neither where the image is resumed nor where the machine boots cold.

Method: `rem campaign --workload --check` with SQLite, redis and plain files on ext4. A power cycle
is recorded, with the disk's write log and all that the program printed; machines boot images of it,
with NVRAM and disk as they were at the cut, and the check compares them with the promises. The
negative proof is a disk whose cache is declared to survive and does not: it stays on, and the
resumed guest is torn.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.campaign import boots
from lab.campaign import engine as program
from lab.campaign.engine import Work
from lab.campaign.mutants import NO_FLUSH
from lab.campaign.record import Recorded, record
from lab.campaign.workload import EXAMPLES
from lab.setup.campaign import Campaign
from lab.setup.products import need
from tests.support.rem_runs import figures_of, rem

LIMIT_S = 1500
CUTS = 300
pytestmark = pytest.mark.timeout(LIMIT_S)


def campaign(state: Path, name: str, *words: str) -> dict[str, float]:
    """Run a campaign that breaks no promise; return its figures."""
    load, *arguments = name.split()
    given = ("--workload", " ".join([str(EXAMPLES / load), *arguments]))
    check = ("--check", f"{EXAMPLES / load} check")
    done = rem(state, "campaign", "--json", *given, *check, *words, limit_s=LIMIT_S)
    figures = figures_of(done)
    assert figures["violations"] == figures["disagreements"] == 0
    return figures


@pytest.mark.soak
def test_sqlite_on_another_machines_caches_keeps_its_promises(tmp_path: Path) -> None:
    """A short campaign, with the caches of a server instead of the usual ones."""
    words = ["--images", "400", "--boots", "4", "--caches", "wsp-x5650"]
    figures = campaign(tmp_path, "sqlite.py wal", *words)
    assert figures["booted"] == 4
    assert figures["images"] >= 400


@pytest.mark.soak
@pytest.mark.parametrize("name", ["sqlite.py delete", "sqlite.py wal", "redis.py", "files.py"])
def test_programs_of_third_parties_keep_their_promises(tmp_path: Path, name: str) -> None:
    figures = campaign(tmp_path, name, "--images", "2000", "--boots", "30")
    assert figures["booted"] == 30


def check_the_stopped_image(folder: Path, claimed: bool) -> None:
    """Inner check: a stopped image boots, runs, and has all that SQLite acknowledged."""
    engine = need(Campaign())
    name = f"camp-{'claimed' if claimed else 'kept'}-{os.getpid()}"
    recording = record(Recorded(folder / "run", name, load=NO_FLUSH, claimed=claimed))
    slice_ = program.judge(Work(str(engine), str(recording), 1, 0, CUTS, 0, 1))
    stopped = [
        found
        for found in slice_.outcomes
        if found["reason"] == "resume" and found["place"] == "stop-commit"
    ]
    assert stopped, "no image was cut after the commit"
    names = ("event", "eviction", "reason", "sequence", "class", "place")
    image = boots.Image(str(recording), *(stopped[-1][name] for name in names))
    with boots.boot_machine(recording, name) as machine:
        broken = boots.boot(engine, machine, recording, image, NO_FLUSH)
    assert not broken, broken


@pytest.mark.in_turn
@pytest.mark.full
def test_disk_falsely_described_as_protected_tears_sqlite(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="promises some are broken|e2fsck: "):
        check_the_stopped_image(tmp_path, claimed=True)


@pytest.mark.soak
def test_database_on_a_write_through_disk_is_intact(tmp_path: Path) -> None:
    check_the_stopped_image(tmp_path, claimed=False)

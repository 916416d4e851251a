# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the memory controller in RTL answers as its model, in content and in cycles.

Method: both are given the same requests, and write logs, which are compared. All planted bugs are
in one program, and none is on until it is chosen, so that the claim itself and the negative proofs
need one build.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.media.engine import Engine
from lab.paths import repo_dir
from lab.rtl import scenarios
from lab.rtl.compare import Comparison
from lab.rtl.drive import drive
from lab.rtl.prove import PROOFS, Proof, prove
from lab.setup.products import Group, Packages, need
from lab.setup.psm_bench import PsmBench, rtl_mutants

pytestmark = pytest.mark.full
TIME_ERROR_MAX_PERCENT = 3.0
# Each bug, and the run that is most likely to meet it.
BUGS = {
    "accepted-too-early": "paper",
    "age-not-counted": "power-fail",
    "buffer-not-invalidated": "paper",
    "early-return-unbuffered": "paper",
    "exchange-off-by-one": "levelling",
    "flush-too-early": "paper",
    "gap-before-copy": "paper",
    "mce-not-raised": "faults",
    "queue-drops-on-full": "levelling",
    "read-into-programming": "paper",
    "read-overtakes-write": "paper",
    "record-without-map": "power-fail",
    "syndrome-swapped": "paper",
    "wear-counter-stuck": "paper",
}


@pytest.fixture(scope="module")
def bench() -> Path:
    return need(PsmBench(mutants=True))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.ready()


@pytest.mark.parametrize("name", ["paper", "levelling", "power-fail", "faults", "reset"])
def test_rtl_answers_as_the_model(name: str, bench: Path, engine: Engine, tmp_path: Path) -> None:
    outcome = drive(bench, engine, scenarios.small()[name], tmp_path)
    assert outcome.comparison.found == []
    assert outcome.comparison.requests > 100
    if name == "faults":
        assert outcome.rtl["repaired"] > 100
        assert outcome.rtl["machine_checks"] > 100
    if name == "levelling":
        assert outcome.rtl["moves"] > 5
        assert outcome.rtl["swaps"] > 1
    if name == "paper":
        assert outcome.rtl["rebuilt"] > 100
        assert 0 < outcome.time_error_percent <= TIME_ERROR_MAX_PERCENT


def test_every_planted_bug_has_its_run() -> None:
    assert set(BUGS) == set(rtl_mutants(repo_dir()).names)
    assert set(BUGS.values()) <= set(scenarios.small())


@pytest.mark.in_turn
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found_by_its_check(
    name: str, bench: Path, engine: Engine, tmp_path: Path
) -> None:
    plan = scenarios.small()[BUGS[name]]
    found = drive(bench, engine, plan, tmp_path, f"+bug={name}").comparison
    assert verdicts(found) & rtl_mutants(repo_dir())[name].verdicts, found.found


@pytest.mark.soak
def test_rtl_answers_as_the_model_for_long(bench: Path, engine: Engine, tmp_path: Path) -> None:
    outcome = drive(bench, engine, scenarios.paper(1_000_000, 11), tmp_path)
    assert outcome.comparison.found == []
    assert outcome.time_error_percent <= TIME_ERROR_MAX_PERCENT


# A part with a bug, as a text of it and another one: the proof must fail.
WRONG = {
    "leveler": ("< pointer ? other", "<= pointer ? other"),
    "queue": ("w_count != 0 && !write_waits", "w_count != 0"),
}


@pytest.mark.parametrize("proof", PROOFS, ids=lambda it: it.name)
def test_part_is_proved_and_a_wrong_one_is_not(proof: Proof, tmp_path: Path) -> None:
    need(Packages((Group.RTL,)))
    assert prove(proof, tmp_path) == "proved"
    assert "ssert" in prove(proof, tmp_path, WRONG[proof.name])


def verdicts(found: Comparison) -> set[str]:
    return {line.partition(":")[0] for line in found.found}

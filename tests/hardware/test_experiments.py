# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The experiments that need a machine, in their short form: the papers' statements hold.

tests/unit/test_experiment_parts.py runs those that need none.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab import cli
from lab.errors import Exit
from lab.experiment.programs import MEMORIES, OURS, in_region, programs_root, run_programs
from lab.experiment.workloads import CI
from lab.run import run
from lab.setup.products import need
from lab.setup.root_extras import WORKS_FOLDER
from lab.setup.works import Works
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
ALL_LIMIT_S = 3 * 3600  # only for hangs: every experiment in its short form


@pytest.fixture(scope="module")
def programs_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.mark.in_turn
def test_stops_of_a_machine_confirm_the_papers(tmp_path: Path) -> None:
    """The second uses the Stops that the first measured."""
    for name in ("wsp-f9", "lpc-f8"):
        out = tmp_path / name
        assert cli.main(["experiment", name, "--tier", "ci", "--out", str(out)]) == Exit.PASS
        assert (out / "figure.svg").exists()
    assert len(list(tmp_path.glob("stops-*.json"))) == 2


@pytest.mark.in_turn
def test_programs_of_the_workloads_are_counted_and_a_wrong_result_is_noticed() -> None:
    """Negative proof: a number of a result is changed before the program checks it."""
    config = replace(make_config("test-programs", 1), root=need(programs_root()), network="auto")
    with booted_on(MEMORIES[OURS].memory, config) as machine:
        rows = dict(run_programs(machine, ("miniFE", "SQLite"), CI))
        nothing = rows.pop("nothing")
        for row in rows.values():
            assert row["cpu_loads"] > row["cpu_stores"] > nothing["cpu_stores"]
            assert row["store_misses"] < row["first_level_misses"] < row["cpu_loads"]
            assert row["reads"] > row["writes"] > 0
            assert row["peak_kib"] > nothing["peak_kib"] and row["ns"] > nothing["ns"]
        with pytest.raises(BrokenError, match="FAIL cg residual"):
            in_region(machine, f"{WORKS_FOLDER}/cg --side 4 --planted 1", "OK cg")


@pytest.mark.parametrize(
    ("name", "size"), [("multigrid", "--side 10"), ("flow", "--trips 100"), ("elements", "")]
)
def test_programs_with_libraries_are_right_and_notice_if_not(name: str, size: str) -> None:
    """On this host. Negative proof as above; tests/unit/test_works.py has those without."""
    program = need(Works()) / name
    for words, code, verdict in (("", 0, "OK"), ("--planted 1", 1, "FAIL")):
        done = run([program, *size.split(), *words.split()], check=False)
        assert (done.returncode, done.stdout.split()[:2]) == (code, [verdict, name]), done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("name", ["lpc-f15", "lpc-f16", "lpc-f17", "lpc-f18", "lpc-t2"])
def test_programs_are_run_on_each_memory(programs_out: Path, name: str) -> None:
    """What the first has measured is taken by the others."""
    out = programs_out / name
    assert cli.main(["experiment", name, "--tier", "ci", "--out", str(out)]) == Exit.PASS
    assert (out / "figure.svg").exists()


@pytest.mark.soak
def test_persistent_objects_and_transactions_are_run(tmp_path: Path) -> None:
    out = tmp_path / "lpc-f4"
    assert cli.main(["experiment", "lpc-f4", "--tier", "ci", "--out", str(out)]) == Exit.PASS
    assert (out / "figure.svg").exists()


@pytest.mark.soak
def test_stops_of_many_cpus_are_run(tmp_path: Path) -> None:
    assert cli.main(["experiment", "lpc-f22", "--tier", "ci", "--out", str(tmp_path)]) == Exit.PASS


@pytest.mark.soak
def test_faults_come_back_with_the_systems_that_have_them(tmp_path: Path) -> None:
    name = "wsp-fresh-os"
    assert (
        cli.main(["experiment", name, "--tier", "ci", "--out", str(tmp_path / name)]) == Exit.PASS
    )
    assert (tmp_path / name / "figure.svg").exists()


@pytest.mark.soak
@pytest.mark.timeout(ALL_LIMIT_S)
def test_every_experiment_runs_and_no_point_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["experiment", "--all", "--tier", "ci", "--out", str(tmp_path), "--json"]
    code = cli.main(words)
    printed = capsys.readouterr()
    figures = json.loads(printed.out.splitlines()[-1])["figures"]
    assert figures["experiments_failed"]["value"] == 0, printed.err
    assert figures["missing_unlisted"]["value"] == 0, printed.err
    assert code == Exit.PASS

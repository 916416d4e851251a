# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The experiments that need a machine, in their short form: the papers' statements hold.

tests/unit/test_experiment_parts.py runs those that need none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import cli
from lab.errors import Exit

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.mark.in_turn
def test_stops_of_a_machine_confirm_the_papers(tmp_path: Path) -> None:
    """The second uses the Stops that the first measured."""
    for name in ("wsp-f9", "lpc-f8"):
        out = tmp_path / name
        assert cli.main(["experiment", name, "--tier", "ci", "--out", str(out)]) == Exit.PASS
        assert (out / "figure.svg").exists()
    assert len(list(tmp_path.glob("stops-*.json"))) == 2


@pytest.mark.soak
def test_programs_are_run_on_each_memory(tmp_path: Path) -> None:
    assert cli.main(["experiment", "lpc-f15", "--tier", "ci", "--out", str(tmp_path)]) == Exit.PASS
    assert (tmp_path / "figure.svg").exists()


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

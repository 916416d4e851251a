# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the programs of guest/works compute what they say, and notice if they do not.

Method: those that need no library, on this host, in several sizes. Negative proof: each changes one
number of its result (`--planted 1`), and its own check is red.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import run

ON_TWO = ("--threads", "2")
SIZES = {
    "cg": (("--side", "3"), ("--side", "10"), ("--side", "10", *ON_TWO)),
    "sweep": (
        ("--side", "3", "--angles", "2"),
        ("--side", "6", "--groups", "1", "--steps", "5"),
        ("--side", "5", "--groups", "3", *ON_TWO),
    ),
    "astar": (("--side", "32", "--ways", "6"), ("--side", "100", "--ways", "2")),
    "gravity": (("--side", "4", "--steps", "20"), ("--side", "11", "--steps", "3")),
    "stream": (("--elements", "1000"), ("--elements", "4097", "--times", "1", *ON_TWO)),
    "weather": (("--side", "5", "--steps", "40"), ("--side", "16", "--steps", "2")),
}


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("works")
    run(["make", "-s", "-C", repo_dir() / "guest" / "works", f"OUT={out}", "own"],
        what="compiling guest/works")  # fmt: skip
    return out


def _say(program: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", SIZES)
def test_program_is_right_in_each_size(works: Path, name: str) -> None:
    for size in SIZES[name]:
        code, said = _say(works / name, *size)
        assert (code, said.split()[:2]) == (0, ["OK", name]), said


@pytest.mark.parametrize("name", SIZES)
def test_wrong_result_is_noticed(works: Path, name: str) -> None:
    for size in SIZES[name]:
        code, said = _say(works / name, *size, "--planted", "1")
        assert (code, said.split()[:2]) == (1, ["FAIL", name]), said


def test_finite_elements_err_by_the_square_of_their_size(works: Path) -> None:
    errors = []
    for side in ("6", "12"):
        _, said = _say(works / "cg", "--side", side)
        errors.append(float(said.split("error=")[1]))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)


def _region(
    works: Path, out: Path, *words: str | Path, lines: str = "go\ncounted\n"
) -> tuple[int, str]:
    argv = [works / "region", out / "said", *words]
    done = subprocess.run(
        argv, input=lines, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


def test_region_reports_time_and_peak_of_what_it_ran(works: Path, tmp_path: Path) -> None:
    code, said = _region(works, tmp_path, works / "cg", "--side", "20")
    ready, region, result = said.splitlines()
    found = re.fullmatch(r"REGION ns=(\d+) peak_kib=(\d+)", region)
    assert code == 0 and ready == "READY" and found is not None and result.startswith("OK cg")
    rows, entry_bytes = 21**3, 27 * 12
    assert int(found[1]) > 0 and int(found[2]) * 1024 > rows * entry_bytes


def test_region_ends_as_its_program_does(works: Path, tmp_path: Path) -> None:
    assert _region(works, tmp_path, "sh", "-c", "exit 3")[0] == 3
    assert _region(works, tmp_path, works / "no-such-program")[0] == 127


def test_region_runs_nothing_before_it_is_told(works: Path, tmp_path: Path) -> None:
    code, said = _region(works, tmp_path, "touch", tmp_path / "ran", lines="")
    assert code == 1 and "FAIL" in said
    assert not (tmp_path / "ran").exists()

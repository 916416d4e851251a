# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem experiment`: each has its parts, raw results can be judged again, a wrong one fails.

Those that need no machine run in their cheap form.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import cli
from lab.errors import Exit
from lab.experiment.run import Experiment, folder, names

# Without a machine, in seconds.
CHEAP = (
    "wsp-cap", "wsp-dev", "wsp-f1-f2", "wsp-f6-f7", "wsp-f8", "wsp-flush", "wsp-rack", "wsp-t2",
)  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_experiment_has_its_parts(name: str) -> None:
    experiment = Experiment.load(name)
    for function in ("measure", "judge", "draw"):
        assert callable(getattr(experiment.module, function))
    readme = (folder() / name / "README.md").read_text(encoding="utf-8")
    for part in ("**Question.**", "**Method.**", "**Differences.**"):
        assert part in readme, part


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["experiment", *words, "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("name", CHEAP)
def test_cheap_run_makes_raw_results_a_picture_and_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    code, printed = run(capsys, name, "--tier", "ci", "--out", str(tmp_path))
    assert code == Exit.PASS
    assert printed["ok"] is True
    assert printed["figures"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    again, same = run(
        capsys, name, "--redraw", str(tmp_path / "raw.json"), "--out", str(tmp_path / "again")
    )
    assert (again, same) == (code, printed), "figures are a function of the raw results"


def test_result_that_contradicts_the_paper_is_exit_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(capsys, "wsp-f6-f7", "--tier", "ci", "--out", str(tmp_path))
    kept = json.loads((tmp_path / "raw.json").read_text(encoding="utf-8"))
    kept["raw"]["windows_ns"]["atx-22"]["busy"] = [12_000_000]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(kept), encoding="utf-8")
    code, printed = run(capsys, "wsp-f6-f7", "--redraw", str(wrong), "--out", str(tmp_path))
    assert code == Exit.BROKEN
    assert printed["ok"] is False


@pytest.mark.parametrize(
    "words",
    [
        ["no-such"],
        ["wsp-f6-f7", "--tier", "soak"],
        ["wsp-f6-f7", "--redraw", "no-such.json"],
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
) -> None:
    assert cli.main(["experiment", *words, "--out", str(tmp_path)]) == Exit.USAGE
    assert capsys.readouterr().err.splitlines()[-1].startswith("rem: ")


def test_results_of_another_experiment_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(capsys, "wsp-f1-f2", "--tier", "ci", "--out", str(tmp_path))
    words = ["wsp-f6-f7", "--redraw", str(tmp_path / "raw.json"), "--out", str(tmp_path)]
    assert cli.main(["experiment", *words]) == Exit.USAGE
    assert "not of wsp-f6-f7" in capsys.readouterr().err

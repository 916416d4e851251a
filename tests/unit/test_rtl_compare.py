# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The comparison of the RTL's answers with the model's: what it explains, and what it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab import psm_parameters as parameters
from lab.errors import RemError
from lab.paths import repo_dir
from lab.rtl.compare import Comparison, compare_answers, lane_times, lines_in_order, read_table
from lab.setup.patch_series import check_series
from lab.setup.psm_bench import rtl_mutants

COLUMNS = "index kind issue at done channel value contained"


def table(folder: Path, rows: list[str], columns: str = COLUMNS) -> dict[str, np.ndarray]:
    file = folder / "log"
    file.write_text("\n".join([columns, *rows]) + "\n")
    return read_table(file)


def test_answers_that_meet_leave_one_a_cycle() -> None:
    due = np.array([10, 10, 10, 12, 30], dtype=np.int64)
    assert lane_times(due).tolist() == [10, 11, 12, 13, 30]


def test_lane_explains_a_cycle_and_nothing_else_does(tmp_path: Path) -> None:
    model = table(tmp_path, ["0 0 50 7 0", "1 0 50 8 0"], "index kind done value contained")
    for second, unexplained in ((51, 0), (50, 1), (52, 1)):
        rows = ["0 0 1 1 50 3 7 0", f"1 0 2 2 {second} 3 8 0"]
        result = Comparison()
        compare_answers(table(tmp_path, rows), model, result)
        assert result.cycles_unexplained == unexplained
        assert result.ok == (unexplained == 0)


def test_line_that_differs_is_found_and_an_early_answer_too(tmp_path: Path) -> None:
    model = table(tmp_path, ["0 0 50 7 0", "1 0 60 0 1"], "index kind done value contained")
    result = Comparison()
    compare_answers(table(tmp_path, ["0 0 1 1 49 3 9 0", "1 0 2 2 60 2 0 0"]), model, result)
    assert [line.split(":")[0] for line in result.found] == [
        "line-read",
        "machine-check",
        "read-time",
    ]
    assert result.content_unequal == 2


def test_logs_of_other_requests_are_refused(tmp_path: Path) -> None:
    model = table(tmp_path, ["0 0 50 7 0"], "index kind done value contained")
    with pytest.raises(RemError, match="same requests"):
        compare_answers(table(tmp_path, ["1 0 1 1 50 3 7 0"]), model, Comparison())


def test_overtaking_on_a_line_is_found(tmp_path: Path) -> None:
    rows = ["1 0 2 2 50 3 7 0", "0 1 1 3 51 3 0 0"]
    for lines, ok in (([5, 5], False), ([5, 6], True)):
        result = Comparison()
        lines_in_order(table(tmp_path, rows), np.array(lines, dtype=np.uint64), result)
        assert result.ok == ok


def test_parameters_are_the_table_in_cycles() -> None:
    number = parameters.numbers()
    assert number["READ"] == 79  # 49.325 ns
    assert number["PROGRAM"] == 320 + 168
    assert parameters.in_cycles() == {"read_ns": 49.375, "tburst_ns": 3.125}
    assert "`define PSM_READ 79\n" in parameters.header()


def test_planted_bugs_apply() -> None:
    series = rtl_mutants(repo_dir())
    assert len(series.names) >= 8
    assert check_series(repo_dir(), series) == []

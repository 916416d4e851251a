# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lpc-f4: what modes take and draw, over DRAM-only and over mem-mode.

Goal: the verdict counts every value that the paper gives, and a deviation is accepted only where
the sweep of its reason shows it. Method: raw results are made up, first as the paper has them, then
with one of them wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.experiment.object_modes import ns_of, numbers_of
from lab.experiment.run import Experiment, Report
from lab.result import Result
from lab.verdict import BrokenError
from tests.support.verdicts import counted, verdict

TIMES = {
    "dram_only": 1.0,
    "mem_mode": 1.013,
    "app_mode": 1.297,
    "object_mode": 1.8,
    "trans_mode": 8.7,
}
POWER = {"app_mode": 1.47, "object_mode": 1.6, "trans_mode": 1.6}
STATIC_MW = 20_000.0
MORE_NS = {"1000": 100.0, "4000": 1000.0}  # what instructions take, in all modes
STRONGER = "persistent, accesses take 100 times"


def f4_rows(slower: float, stronger: float = 1.0, more: float = 1.0) -> dict[str, Any]:
    """Of two programs. *more*: times DRAM-only where operations do more."""
    return {
        work: {
            "ns": slower * ns,
            "operations": 10_000,
            "digest": ns,
            **{"reads": 1000, "writes": 500, "row_reads": 990, "row_writes": 480, "swept": 2},
            "activate_pj": 0,
            "read_pj": (stronger - 1) * STATIC_MW * slower * ns,  # mW ns = pJ
            "write_pj": 0,
            "more_ns": {key: more * (ns + 10_000 * its_ns) for key, its_ns in MORE_NS.items()},
        }
        for work, ns in (("one", 1_000_000), ("other", 3_000_000))
    }


def f4(
    modes: dict[str, float],
    power: dict[str, float] = POWER,
    at_100: float = 1.5,
    more: float = 1.3,
) -> dict[str, Any]:
    """*at_100*: where accesses take 100 times; *more*: times DRAM-only where operations do more,
    of transactions 8 times as much."""
    builds = {"plain": "app_mode", "object": "object_mode", "trans": "trans_mode"}
    persistent = {
        build: f4_rows(modes[mode], power[mode], more * (8 if build == "trans" else 1))
        for build, mode in builds.items()
    }
    stronger = {build: f4_rows(1.0, at_100) for build in ("plain", "object")}
    return {
        "dram_only": {"static_mw": 3000.0, "runs": {"plain": f4_rows(1.0)}},
        "mem_mode": {"static_mw": STATIC_MW, "runs": {"plain": f4_rows(modes["mem_mode"])}},
        "persistent": {"static_mw": 17_000.0, "runs": persistent},
        STRONGER: {"static_mw": 17_000.0, "runs": stronger},
    }


def test_f4_as_in_the_paper_passes() -> None:
    result = verdict("lpc-f4", f4(TIMES))
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["nmem_snarfs"].value == 20
    assert result.figures["nmem_misses"].value == 60
    assert result.figures["nmem_hit_percent"].value == 98


def test_f4_slower_mode_is_accepted_only_if_more_work_would_do() -> None:
    slow = TIMES | {"app_mode": 1.7}
    assert counted(verdict("lpc-f4", f4(slow))) == (1, 0)
    assert counted(verdict("lpc-f4", f4(slow, more=1.8))) == (0, 1)
    assert counted(verdict("lpc-f4", f4(TIMES | {"trans_mode": 30.0}))) == (1, 0)
    assert counted(verdict("lpc-f4", f4(TIMES | {"trans_mode": 4.0}, more=0.3))) == (0, 1)


def test_f4_more_work_is_what_ran() -> None:
    figures = verdict("lpc-f4", f4(TIMES, more=1.1)).figures
    assert figures["app_mode_vs_dram_only, 1000 instructions more"].value == 1.1
    assert figures["trans_mode_vs_dram_only, 4000 instructions more"].value == 8.8
    assert figures["4000 instructions more take"].value == 1000


def test_f4_power_needs_the_sweep_of_its_reason() -> None:
    less = POWER | {"app_mode": 1.02}
    assert counted(verdict("lpc-f4", f4(TIMES, less))) == (1, 0)
    assert counted(verdict("lpc-f4", f4(TIMES, less, at_100=1.01))) == (0, 1)


def test_f4_lines_that_no_store_changed_are_red_if_many() -> None:
    raw = f4(TIMES)
    raw["persistent"]["runs"]["plain"]["one"]["swept"] = 500
    assert not verdict("lpc-f4", raw).ok


def test_f4_mode_that_nothing_excuses_is_red() -> None:
    assert counted(verdict("lpc-f4", f4(TIMES | {"mem_mode": 1.28}))) == (0, 1)


def test_f4_other_results_in_a_mode_are_red() -> None:
    raw = f4(TIMES)
    raw["persistent"]["runs"]["trans"]["one"]["digest"] += 1
    assert not verdict("lpc-f4", raw).ok


def test_f4_each_expected_value_is_a_figure_and_missing_it_is_red() -> None:
    experiment = Experiment.load("lpc-f4")
    report = Report(Result("lpc-f4"))
    experiment.module.judge(f4(TIMES), experiment.paper.values, report)
    ours = {key: figure.value for key, figure in report.result.figures.items()}
    for value in experiment.paper.results.expected:
        without = {key: figure for key, figure in ours.items() if key != value}
        assert list(experiment.paper.results.compare(without, True).failed) == [value]


@pytest.mark.parametrize("said", ["FAIL table an entry", "", "DONE"])
def test_f4_program_that_reports_no_result_is_refused(said: str) -> None:
    with pytest.raises(BrokenError):
        numbers_of(said, "OK", "table")
    assert numbers_of("OK table digest=7", "OK", "table") == {"digest": 7}


def test_f4_near_memory_that_has_little_is_red() -> None:
    raw = f4(TIMES)
    for row in raw["mem_mode"]["runs"]["plain"].values():
        row |= {"row_reads": 10, "row_writes": 10}
    assert not verdict("lpc-f4", raw).ok


def test_f4_a_stall_in_one_piece_is_no_part_of_the_time() -> None:
    pieces = [100] * 15 + [4_000_000]
    assert ns_of(f"DONE {' '.join(map(str, pieces))}") == 1600
    with pytest.raises(BrokenError):
        ns_of("FAIL table memory")

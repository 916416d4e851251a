# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments of WSP's save routine, modules and devices: a mechanism that is missing is red.

Goal and method are those of test_experiment_verdicts.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit import test_experiment_verdicts as verdicts
from tests.unit.test_experiment_verdicts import MS, counted, verdict

# wsp-flush: one write-back, and the lines of the save routine.

SAVE_PATH = [
    ["stop/power.c", "rem_pwr_interrupt", 40],
    ["stop/fast.c", "rem_park_halt", 80],
    ["stop/record.c", "rem_record_commit", 30],
    ["stop/record.c", "rem_word_store", 10],
]


def flush(
    together: float = 1.0,
    stop: float = 1.0,
    in_turn: float = 2.0,
    more: tuple[list[Any], ...] = (),
    stop_ns: int = 2_950_000,
) -> dict[str, Any]:
    """Times of what all CPUs take, over one write-back; functions besides SAVE_PATH."""
    cpus = {"wsp-c5528": 4, "wsp-4180": 6, "wsp-x5650": 6, "wsp-d510": 2, "lightpc": 8}
    one_ns = 2_900_000

    def stops(over_one: float) -> list[dict[str, Any]]:
        flushes = {"taken_ns": round(one_ns * over_one), "longest_ns": one_ns, "lines": 9,
                   "line_ns": 0.0}  # fmt: skip
        return [{"load": "idle", "stop_ns": stop_ns, "flushes": flushes}]

    return {
        "flushes": {
            profile: {
                str(count): {
                    "lines": 9,
                    "write_ns": 700_000,
                    "together_ns": round(one_ns * together),
                    "first_ns": one_ns,
                    "other_ns": one_ns,
                }
                for count in (1, most)
            }
            for profile, most in cpus.items()
        },
        "windows_ns": {"wsp-intel-750w": 10 * MS, "wsp-amd-525w": 22 * MS},
        "path": [*SAVE_PATH, *more],
        "stops": {count: stops(stop) for count in ("1", "2", "4")},
        "in_turn": stops(in_turn),
    }


def test_flush_as_in_the_paper_passes() -> None:
    result = verdict("wsp-flush", flush())
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["wsp_c5528_in_turn"].value == 4
    assert result.figures["wsp_c5528_in_turn_percent_of_window"].value == 116


def test_flush_that_is_no_one_write_back_is_red() -> None:
    assert not verdict("wsp-flush", flush(together=1.2)).ok
    assert counted(verdict("wsp-flush", flush(together=1.05))) == (0, 2)  # the testbeds' 3 ms
    assert not verdict("wsp-flush", flush(stop=1.2)).ok
    assert counted(verdict("wsp-flush", flush(stop_ns=3_100_000))) == (0, 1)


def test_flush_of_a_planted_bug_that_nobody_sees_is_red() -> None:
    assert not verdict("wsp-flush", flush(in_turn=1.0)).ok


def test_save_routine_may_be_longer_by_what_the_papers_does_not_do() -> None:
    ours = ["resume/pci.c", "rem_devices_stop", 100]
    assert counted(verdict("wsp-flush", flush(more=(ours,)))) == (1, 0)
    assert counted(verdict("wsp-flush", flush(more=(["stop/fast.c", "rem_more", 100],)))) == (0, 1)


def test_save_path_of_unknown_functions_or_without_its_end_is_red() -> None:
    assert not verdict("wsp-flush", flush(more=(["stop/new.c", "rem_new", 1],))).ok
    raw = flush()
    raw["path"] = raw["path"][:2]
    assert not verdict("wsp-flush", raw).ok


@pytest.mark.parametrize(("name", "raw"), [("wsp-flush", flush())])
def test_each_expected_value_is_measured(name: str, raw: Any) -> None:
    verdicts.test_each_expected_value_is_a_figure_and_missing_it_is_red(name, raw)

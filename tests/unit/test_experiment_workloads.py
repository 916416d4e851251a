# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC's workloads as programs: a value of the paper that is missed is red.

Goal and method are those of test_experiment_verdicts.py: raw results are made up, first as the
paper has them, then with one of them wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.experiment.programs import CACHES, FASTER, FASTER_B, MEMORIES, NO_FETCHES, OURS, SLOW_B, B
from lab.experiment.run import Experiment
from lab.experiment.workloads import PROGRAMS
from tests.support.verdicts import assert_missing_is_red, counted, verdict

MS = 1_000_000


# lpc-f15: programs on three memories.


def f15(ours: float, b: float, slow_b: float, most: float = 1.0) -> dict[str, Any]:
    """Each program takes so much longer than on DRAM; SNAP and astar, on LightPC-B, *most* times
    as long again."""
    factors = (1.0, ours, b, slow_b)
    raw = {
        platform: {
            name: {"ns": round(1000 * MS * factor), "reads": 270, "writes": 11, "swept": 1}
            for name in PROGRAMS
        }
        for platform, factor in zip(MEMORIES, factors, strict=True)
    }
    for name in ("SNAP", "astar"):
        raw[B][name]["ns"] = round(1000 * MS * b * most)
    return raw | {name: raw[SLOW_B if name in FASTER_B else OURS] for name in FASTER}


def test_f15_as_in_the_paper_passes() -> None:
    result = verdict("lpc-f15", f15(1.12, 2.8 * 1.12, 4.0, 4.1 / 2.8))
    assert result.ok
    assert counted(result) == (0, 0)


def test_f15_faster_baseline_is_accepted_only_if_its_sweep_makes_it_slower() -> None:
    assert counted(verdict("lpc-f15", f15(1.12, 1.3, 2.8 * 1.12))) == (2, 0)
    assert counted(verdict("lpc-f15", f15(1.12, 1.3, 5.0 * 1.12))) == (1, 1)
    assert counted(verdict("lpc-f15", f15(1.12, 1.3, 1.2))) == (0, 2)


def test_f15_memory_that_is_faster_than_dram_is_red() -> None:
    assert not verdict("lpc-f15", f15(0.95, 2.8, 4.0)).ok


# lpc-f16: read latencies of the same programs.


def f16(b: float, slow_b: float, mcf: float = 7.0, wrf: float = 14.8) -> dict[str, Any]:
    """Each baseline's reads take so many times LightPC's; mcf's and wrf's others on LightPC-B."""

    def rows(ns: float, others: dict[str, float]) -> dict[str, Any]:
        return {name: {"reads": 100, "read_ns": 100 * others.get(name, ns)} for name in PROGRAMS}

    return {
        "LegacyPC": rows(1, {}),
        "LightPC": rows(1, {}),
        "LightPC-B": rows(b, {"mcf": mcf, "wrf": wrf}),
        SLOW_B: rows(slow_b, {}),
    } | {name: rows(2 * slow_b if name in FASTER_B else 2, {}) for name in FASTER}


def test_f16_as_in_the_paper_passes() -> None:
    result = verdict("lpc-f16", f16(9.0, 20.0))
    assert result.ok
    assert counted(result) == (0, 0)


def test_f16_smaller_ratios_are_accepted_only_if_the_baseline_is_not_why() -> None:
    assert counted(verdict("lpc-f16", f16(2.0, 5.0, mcf=1.5, wrf=3.0))) == (3, 0)
    assert counted(verdict("lpc-f16", f16(2.0, 8.0, mcf=1.5, wrf=3.0))) == (1, 2)


def test_f16_other_order_is_accepted_only_if_the_baseline_does_not_restore_it() -> None:
    raw = f16(9.0, 20.0, mcf=8.0)
    raw["LightPC-B"]["AES"]["read_ns"] = 700
    assert counted(verdict("lpc-f16", raw)) == (1, 0)
    raw[SLOW_B]["mcf"]["read_ns"] = 700
    assert counted(verdict("lpc-f16", raw)) == (0, 1)


def test_f16_without_a_gain_is_red() -> None:
    assert not verdict("lpc-f16", f16(0.9, 20.0, mcf=0.8, wrf=1.2)).ok


# lpc-f17: STREAM.


def f17(copy: float, add: float, others: float = 0.78) -> dict[str, Any]:
    """Shares of LegacyPC's bandwidth; of cores in order, and of faster devices, *others*."""
    legacy = dict.fromkeys(("copy", "scale", "add", "triad"), 1_000_000)
    ours = {k: round(ns / (copy if k in ("copy", "scale") else add)) for k, ns in legacy.items()}
    other = {k: round(ns / others) for k, ns in legacy.items()}
    return {
        "400 MHz": {"LightPC": ours, "LegacyPC": legacy},
        "400 MHz, in order": {"LightPC": other, "LegacyPC": legacy},
        "400 MHz, program in 100 ns": {"LightPC": other, "LegacyPC": legacy},
    }


def test_f17_as_in_the_paper_passes() -> None:
    result = verdict("lpc-f17", f17(0.76, 0.80))
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["mean share, 400 MHz"].value == 0.78


def test_f17_other_share_or_order_is_red() -> None:
    assert counted(verdict("lpc-f17", f17(0.5, 0.6))) == (1, 0)
    assert counted(verdict("lpc-f17", f17(0.5, 0.6, others=0.5))) == (0, 1)
    assert not verdict("lpc-f17", f17(0.80, 0.76)).ok
    assert not verdict("lpc-f17", f17(0.76, 1.1)).ok


# lpc-t2: what the same programs ask of memory.


def requests(off: dict[str, float], smaller_off: float = 30.0) -> dict[str, Any]:
    """The paper's shares, where loads of *off* hit so many points less; caches of other sizes."""
    paper = Experiment.load("lpc-t2").paper.values
    loads, stores, lines = 1_000_000, 1_000_000, 100_000

    def row(name: str, points: float) -> dict[str, int]:
        ratio, load_hits, store_hits = paper[name]
        load_misses = round(loads * (100 - load_hits + points) / 100)
        store_misses = round(stores * (100 - store_hits) / 100)
        return {
            "cpu_loads": loads,
            "cpu_stores": stores,
            "first_level_misses": load_misses + store_misses,
            "store_misses": store_misses,
            "fetch_misses": lines // 4,
            "reads": round(lines * ratio),
            "writes": lines + 7,
            "swept": 7,
            "row_writes": 10,
            "peak_kib": 2048,
        }

    def rows(more: float) -> dict[str, Any]:
        found = {name: row(name, off.get(name, 0) + more) for name in PROGRAMS}
        return found | {"nothing": row("AES", 0)}

    small, large = CACHES
    return {
        "LightPC": rows(0),
        small: rows(smaller_off),
        large: rows(-1),
        NO_FETCHES: rows(20),
    }


def test_t2_as_in_the_paper_passes() -> None:
    result = verdict("lpc-t2", requests({}))
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["programs_off"].value == 0
    assert result.figures["mcf_read_share_percent"].value == 99.7
    assert result.figures["bzip2_store_hits_percent"].value == 54.4


def test_t2_one_share_that_is_off_is_a_deviation_of_its_program() -> None:
    result = verdict("lpc-t2", requests({"SHA512": 9.9, "miniFE": 12.0}))
    assert counted(result) == (0, 1)
    assert result.figures["off"].value == "miniFE"
    assert result.figures["miniFE_most_off"].value == "load_hits"
    assert result.figures["miniFE_points_off"].value == 12.0


def test_t2_deviation_is_accepted_only_where_a_cache_comes_nearer_or_none_explains_it() -> None:
    assert counted(verdict("lpc-t2", requests({"AMG": 12.0}))) == (1, 0)
    assert counted(verdict("lpc-t2", requests({"bzip2": 12.0}))) == (1, 0)
    assert counted(verdict("lpc-t2", requests({"bzip2": 10.5}))) == (0, 1)


def test_t2_cache_that_changes_nothing_is_red() -> None:
    assert not verdict("lpc-t2", requests({}, smaller_off=0.0)).ok


# lpc-f18: the energy of the same programs.


def f18(ours: float, b: float, legacy_memory_mw: float) -> dict[str, Any]:
    """LightPC's memory takes 1 W of 5.3 W."""
    raw = f15(ours, b, b)
    for platform, rows in raw.items():
        mw = legacy_memory_mw if platform == "LegacyPC" else 1000
        for row in rows.values():
            # Read for twice the time of the program: a half of it is the program's.
            row |= {"guest_ns": 2 * row["ns"], "background_pj": round(2 * row["ns"] * mw * 0.75)}
            row |= {"refresh_pj": 0, "activate_pj": 0, "write_pj": 0}
            row["read_pj"] = round(row["ns"] * mw * 0.25)
    return raw


def test_f18_as_in_the_paper_passes() -> None:
    result = verdict("lpc-f18", f18(1.105, 3.27, 14_600))
    assert result.ok
    assert counted(result) == (0, 0)
    assert result.figures["board_mw"].value == 4300
    assert result.figures["LegacyPC_mw"].value == 18_900


def test_f18_dimms_with_less_power_are_accepted_only_if_more_would_do() -> None:
    # Six DIMMs of 500 mW: the sweep adds 12 W at most.
    assert counted(verdict("lpc-f18", f18(1.105, 3.27, 3_500))) == (3, 0)
    assert counted(verdict("lpc-f18", f18(1.105, 1.5, 14_600))) == (0, 1)


def test_f18_memory_that_takes_more_power_than_dram_is_red() -> None:
    assert not verdict("lpc-f18", f18(1.105, 3.27, 500)).ok
    assert not verdict("lpc-f18", f18(1.105, 1.0, 14_600)).ok


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("lpc-f15", f15(1.12, 2.8 * 1.12, 4.0, 4.1 / 2.8)),
        ("lpc-f16", f16(9.0, 20.0)),
        ("lpc-f18", f18(1.105, 3.27, 14_600)),
        ("lpc-t2", requests({})),
    ],
)
def test_each_expected_value_is_a_figure_and_missing_it_is_red(name: str, raw: Any) -> None:
    assert_missing_is_red(name, raw)

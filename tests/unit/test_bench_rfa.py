# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The judgement of `rem bench rfa`."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace

import pytest

from lab import format as fmt
from lab.bench import rfa, rfa_rest, rfa_stops
from lab.bench.rfa_stops import Stops
from lab.media.tape import trace_file
from lab.result import Result

MS_NS = 1_000_000
TIMES_MS = {"dram": 100, "optane": 200, 1: 195, 5: 180, 10: 150, 25: 120}
MODE_MS = 130
RESIDENT_BYTES = 40 << 20
STOPS = Stops(longest_ns=900_000, bound_ns=20 * MS_NS, hold_up_ns=55 * MS_NS)


def measured(
    monkeypatch: pytest.MonkeyPatch,
    slower_ms: int = 0,
    slower: str = "make",
    plan: rfa.Plan | None = None,
) -> Result:
    def measure(
        _plan: rfa.Plan,
        program: rfa.Program,
        memory: str,
        percent: int = 0,
        resident: int = 0,
        rule: str = "heat",
    ) -> rfa.Run:
        late_ms = slower_ms if percent and slower in (program.name, rule) else 0
        moved = {"frames": 1, "used": 1, "promoted": 2, "demoted": 0, "written": 3}
        moved |= {"began": 4, "over": 0, "text_used": 5}
        time_ms = TIMES_MS.get(percent or memory, MODE_MS)
        stops = STOPS if percent == rfa.JUDGED_PERCENT and rule == rfa.OWN_RULE else None
        return rfa.Run((time_ms + late_ms) * MS_NS, RESIDENT_BYTES, moved, stops=stops)

    monkeypatch.setattr(rfa, "_measure", measure)
    monkeypatch.setattr(rfa, "need_all", lambda _: {})
    result = Result("rfa")
    rfa.run(plan or rfa.Plan(), result, lambda _: None)
    return result


def test_longest_stop_of_all_machines_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch)
    assert result.figures["mixed_stop_max_ns"].value == STOPS.longest_ns
    assert result.figures["mixed_stop_margin_ns"].value == 35 * MS_NS


@pytest.mark.parametrize(
    ("worse", "name"),
    [
        ({"longest_ns": 21 * MS_NS}, "stop_max_ns"),
        ({"bound_ns": 56 * MS_NS}, "stop_margin_ns"),
    ],
)
def test_a_stop_over_its_bound_or_the_window_is_missed(worse: dict[str, int], name: str) -> None:
    result = Result("rfa")
    (line,) = rfa_stops.judge(result, [STOPS, replace(STOPS, **worse)])
    assert not result.ok and result.missed == [name] and line.startswith("MISSED: ")


def test_share_of_the_gap() -> None:
    assert rfa.recovered(200, 100, 200) == 0
    assert rfa.recovered(200, 100, 100) == 1
    assert rfa.recovered(200, 100, 230) == pytest.approx(-0.3)
    assert rfa.recovered(100, 100, 100) == 0


def test_machines_without_a_cache_have_none() -> None:
    assert rfa.cache_bytes(40 << 20, 0) == 0
    assert rfa.cache_bytes(40 << 20, 25) == 10 << 20
    assert rfa.cache_bytes(1 << 20, 5) == 13 * 4096, "whole pages"
    assert rfa.cache_bytes(4096, 1) == 4096, "and one at least"


def test_least_of_the_programs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch)
    assert result.ok and result.figures["loss_recovered_25"].value == 0.8
    result = measured(monkeypatch, slower_ms=1)
    assert not result.ok and result.figures["loss_recovered_25"].value == 0.79
    assert {figure.kind for figure in result.figures.values()} == {"modelled", "counted"}


def test_programs_that_are_not_judged_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch, slower_ms=50, slower="postgres")
    assert result.ok and result.figures["loss_recovered_25"].value == 0.8
    assert result.figures["postgres_25_recovered"].value == 0.3


def test_other_rules_stand_beside_and_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rfa.Plan(("redis",), percents=(25,), rules=tuple(rfa.RULES))
    result = measured(monkeypatch, slower_ms=50, slower="nomad", plan=plan)
    assert result.ok
    shares = {name: figure.value for name, figure in result.figures.items() if "recov" in name}
    assert shares == {
        "redis_25_recovered": 0.8,
        "redis_25_data_recovered": 0.8,
        "redis_25_numa_recovered": 0.8,
        "redis_25_nomad_recovered": 0.3,
        "redis_25_damon_recovered": 0.8,
        "redis_25_generations_recovered": 0.8,
        "redis_25_mode_recovered": 0.7,
        "loss_recovered_25": 0.8,
    }


def test_reads_of_a_trace_are_counted_by_line() -> None:
    read, write = int(fmt.TraceKind.READ), int(fmt.TraceKind.WRITE)
    gap = 7 << 48  # instructions between two requests
    records = [line | kind << 46 | gap for line, kind in ((5, read), (9, write), (5, read))]
    trace = trace_file(struct.pack("<3Q", *records), lines=10)
    assert rfa_rest.lines_read(trace) == {5: 2}
    reads = rfa_rest.Reads(Counter({"slab": 1, rfa_rest.TEXT: 3}))
    assert reads.shares() == {rfa_rest.TEXT: 0.75, "slab": 0.25}


def test_memory_mode_has_no_less_dram(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [rfa.mode_bytes(n << 20) for n in (2, 10, 16)] == [2 << 20, 16 << 20, 16 << 20]
    result = measured(monkeypatch)
    assert result.figures["redis_25_mode_bytes"].value == 16 << 20
    assert result.figures["redis_25_mode_recovered"].value == 0.7
    result = Result("rfa")
    rfa.run(rfa.Plan(memory="ocpmem"), result, lambda _: None)
    assert not any("mode" in name for name in result.figures)


def test_program_without_a_gap_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMES_MS, "optane", 100)
    assert not measured(monkeypatch).ok

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The judgement of `rem bench rfa`."""

from __future__ import annotations

import pytest

from lab.bench import rfa

MS_NS = 1_000_000
TIMES_MS = {"dram": 100, "optane": 200, 5: 180, 10: 150, 25: 120}


def measured(monkeypatch: pytest.MonkeyPatch, slower_ms: int = 0) -> rfa.Result:
    def measure(
        _plan: rfa.Plan, program: rfa.Program, memory: str, percent: int = 0, resident: int = 0
    ) -> rfa.Run:
        late_ms = slower_ms if percent and program.name == "make" else 0
        moved = {"frames": 1, "used": 1, "promoted": 2, "demoted": 0, "written": 3}
        return rfa.Run((TIMES_MS[percent or memory] + late_ms) * MS_NS, 1 << 20, moved)

    monkeypatch.setattr(rfa, "_measure", measure)
    return rfa.run(rfa.Plan())


def test_share_of_the_gap() -> None:
    assert rfa.recovered(200, 100, 200) == 0
    assert rfa.recovered(200, 100, 100) == 1
    assert rfa.recovered(200, 100, 230) == pytest.approx(-0.3)
    assert rfa.recovered(100, 100, 100) == 0


def test_machines_without_a_cache_have_none() -> None:
    assert rfa.cache_bytes(40 << 20, 0) == 0
    assert rfa.cache_bytes(40 << 20, 25) == 10 << 20
    assert rfa.cache_bytes(1 << 20, 5) == 2 << 20, "the least that the kernel takes"


def test_least_of_the_programs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(monkeypatch)
    assert result.ok and result.figures["loss_recovered_25"].value == 0.8
    result = measured(monkeypatch, slower_ms=1)
    assert not result.ok and result.figures["loss_recovered_25"].value == 0.79
    assert {figure.kind for figure in result.figures.values()} == {"modelled", "counted"}


def test_program_without_a_gap_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMES_MS, "optane", 100)
    assert not measured(monkeypatch).ok

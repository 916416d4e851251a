# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a program comes back from a power failure in each of nine ways, with the same result.

Method: `rem bench persist`, short: a real kernel on the modelled memory, whose caches are lost.
Negative proof: the program's way is Stop and Go, and Stop's flushes have no effect.
"""

from __future__ import annotations

import pytest

from lab.bench.persist import (
    LONG_STEPS,
    OURS_VS_PLAIN_MAX,
    Plan,
    judge,
    measure_ways,
    prepare,
    rig_of,
    run_cut,
)
from lab.bench.persist_ways import WAYS
from lab.machine.cut_plan import CutPlan
from lab.messages import info
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.soak, pytest.mark.timeout(7200)]

LONG_NS = 20 * 10**9
FEW_STEPS = 160_000


def test_each_way_ends_with_the_same_result() -> None:
    found, failed = measure_ways(Plan(), info)
    assert not failed
    result = judge(found, info)
    assert result.figures["methods"].value == len(WAYS) == 9
    assert result.figures["results_equal"].value == len(WAYS)


def test_stop_and_go_cost_a_hundredth_of_a_long_run() -> None:
    found, failed = measure_ways(Plan(("ours",), steps=LONG_STEPS), info)
    assert not failed
    figures = judge(found, info).figures
    assert figures["plain_ns"].value >= LONG_NS
    assert figures["ours_vs_plain"].value <= OURS_VS_PLAIN_MAX


@pytest.mark.parametrize("name", ["ours", "sng"])
def test_without_flushes_the_program_is_lost(name: str) -> None:
    way = WAYS[name]
    with rig_of(Plan(steps=FEW_STEPS), way) as rig:
        prepare(rig, way)
        with pytest.raises(BrokenError) as found:
            run_cut(rig, way, FEW_STEPS, 0.2, CutPlan(no_flush="all"))
    assert found.value.verdict == "cold"

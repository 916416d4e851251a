# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a program comes back from a power failure in each of nine ways, with the same result.

Method: `rem bench persist`, short: a real kernel on the modelled memory, whose caches are lost.
Negative proof: the program's way is Stop and Go, and Stop's flushes have no effect.
"""

from __future__ import annotations

import pytest

from lab.bench.persist import Plan, judge, measure_ways, prepare, rig_of, run_cut
from lab.bench.persist_ways import WAYS
from lab.machine.cut_plan import CutPlan
from lab.messages import info
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.soak, pytest.mark.timeout(7200)]

STEPS = 640_000  # a failure after more than a second, when CRIU has dumped once
FEW_STEPS = 160_000


def test_each_way_ends_with_the_same_result() -> None:
    found, failed = measure_ways(Plan(steps=STEPS), info)
    assert not failed
    result = judge(found, info)
    assert result.figures["methods"].value == len(WAYS) == 9
    assert result.figures["results_equal"].value == len(WAYS)


@pytest.mark.parametrize("name", ["ours", "sng"])
def test_without_flushes_the_program_is_lost(name: str) -> None:
    way = WAYS[name]
    with rig_of(Plan(steps=FEW_STEPS), way) as rig:
        prepare(rig, way)
        with pytest.raises(BrokenError) as found:
            run_cut(rig, way, FEW_STEPS, 0.2, CutPlan(no_flush="all"))
    assert found.value.verdict == "cold"

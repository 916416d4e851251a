# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The verdict of `rem bench persist`, on made-up costs."""

from __future__ import annotations

import pytest

from lab.bench.persist import Cost, Outcome, judge
from lab.bench.persist_ways import WAYS
from lab.commands.bench import checked_ways
from lab.errors import UsageError

DIGEST = 17


def way(whole_ns: int, cut_ns: int, digest: int = DIGEST) -> dict[str, Outcome]:
    return {
        "whole": Outcome(Cost(whole_ns, 10), DIGEST),
        "cut": Outcome(Cost(cut_ns, 30), digest, Cost(1_000_000, 1), Cost(2_000_000, 1)),
    }


def ours(whole_ns: int = 1_000_000_000) -> dict[str, Outcome]:
    return {"plain": Outcome(Cost(1_000_000_000, 10), DIGEST), **way(whole_ns, 1_003_000_000)}


def test_figures_of_a_way() -> None:
    lines: list[str] = []
    result = judge({"ours": ours(), "syspc": way(1_100_000_000, 2_006_000_000)}, lines.append)
    assert result.ok
    value = {name: figure.value for name, figure in result.figures.items()}
    assert value["methods"] == value["results_equal"] == 2
    assert value["syspc_time_over_plain"] == 2.006
    assert value["syspc_energy_over_plain"] == 3.0
    assert value["syspc_persistence_ns"] == 100_000_000
    assert value["syspc_again_ns"] == 2_006_000_000 - 1_100_000_000 - 3_000_000
    assert value["syspc_over_ours"] == 2.0
    assert value["ours_vs_plain"] == 1.00001
    assert any(line.startswith("syspc: 2.00 times ours") for line in lines)


def test_other_result_is_a_failure() -> None:
    lines: list[str] = []
    result = judge({"ours": ours(), "dax": way(1, 1, digest=18)}, lines.append)
    assert not result.ok
    assert result.figures["results_equal"].value == 1
    assert any(line.startswith("FAILED: dax") for line in lines)


def test_ours_may_cost_a_hundredth() -> None:
    assert judge({"ours": ours(1_009_000_000)}, lambda _: None).ok
    assert not judge({"ours": ours(1_011_000_000)}, lambda _: None).ok


def test_all_nine_ways_are_there() -> None:
    assert checked_ways("all") == tuple(WAYS)
    assert len(WAYS) == 9
    assert checked_ways("dax,ours") == ("dax", "ours")
    with pytest.raises(UsageError, match="--ways tape: give all, or some of ours, sng"):
        checked_ways("tape")

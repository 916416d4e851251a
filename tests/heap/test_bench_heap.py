# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench heap`: how it reads the benchmark's output, what it requires, and a short run."""

from __future__ import annotations

import pytest

from lab.bench import heap
from lab.errors import InfraError
from lab.paths import repo_dir
from lab.setup.heap import HeapWithPeer
from lab.setup.products import need


def test_output_becomes_figures_with_their_spread() -> None:
    found = heap.parse("swap_vs_pmdk 4.5 x 1.25\ncrash_states 900 states 0.00\n")
    figures = heap.as_result("bench heap", found).figures
    assert figures["swap_vs_pmdk"].value == 4.5
    assert figures["swap_vs_pmdk_spread"].value == 1.25
    assert figures["crash_states"].kind == "counted"


def test_malformed_line_is_refused() -> None:
    with pytest.raises(InfraError, match="rebuild"):
        heap.parse("swap 4.5\n")


def test_missed_requirement_is_reported() -> None:
    good = {**heap.REQUIRED_AT_LEAST, **heap.REQUIRED_AT_MOST}
    assert heap.required(good) == []
    missed = heap.required(good | {"swap_vs_pmdk": 1.9, "redo_vs_floor": 1.4})
    assert len(missed) == 2
    assert "swap_vs_pmdk is 1.90" in missed[0]


def test_accepted_miss_is_named_and_has_a_bound_of_its_own() -> None:
    good = {**heap.REQUIRED_AT_LEAST, **heap.REQUIRED_AT_MOST}
    assert heap.accepted(good) == {}
    missed = good | {"insert_vs_floor": 3.3}
    assert heap.required(missed) == []
    assert "not 1.3: its bucket" in heap.accepted(missed)["insert_vs_floor"]
    worse = good | {"insert_vs_floor": 4.6}
    assert heap.accepted(worse) == {}
    assert len(heap.required(worse)) == 1


def test_figure_that_was_not_measured_misses_its_requirement() -> None:
    good = {**heap.REQUIRED_AT_LEAST, **heap.REQUIRED_AT_MOST}
    del good["fof_vs_glibc"]
    assert heap.required(good) == ["fof_vs_glibc was not measured"]


def test_system_calls_count_in_the_timed_part_only() -> None:
    made = "7 msync(0x7f00, 4088, MS_SYNC) = 0\n"
    begin = '7 write(2, "lines are written back by "..., 26) = 26\n'
    assert heap.count_sync_calls(made + begin) == 0
    assert heap.count_sync_calls(made + begin + made + "8 fdatasync(3 <unfinished ...>\n") == 2
    with pytest.raises(InfraError, match="rebuild"):
        heap.count_sync_calls(made)


def test_each_documented_requirement_is_judged() -> None:
    """The column `required` of measurements.md."""
    text = (repo_dir() / "docs" / "reference" / "measurements.md").read_text(encoding="utf-8")
    table = text.partition("\n## The persistent heap\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    required = [row for row in rows if len(row) == 4 and row[2][:1].isdigit()]
    documented = {row[0].split("`")[1]: float(row[2]) for row in required}
    judged = {**heap.REQUIRED_AT_LEAST, **heap.REQUIRED_AT_MOST, "msync_calls": 0}
    assert len(documented) > 10
    assert documented == {name: judged[name] for name in documented}


@pytest.mark.full
def test_short_run_passes_the_crash_tests_and_calls_no_msync() -> None:
    """The figures are not checked: the machine that runs tests may be busy."""
    result, _, _ = heap.ops(need(HeapWithPeer()), rounds=20, objects=100_000)
    assert result.figures["msync_calls"].value == 0
    states = result.figures["crash_states"].value
    assert isinstance(states, float)
    assert states > 1000
    assert {"swap_vs_pmdk", "insert_vs_pmdk", "fof_vs_glibc"} <= set(result.figures)

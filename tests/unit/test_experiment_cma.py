# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The core-memory-age experiments: a value of the paper that is missed is red, what sysbench prints
is read, and points have the words that they stand for.

Method: raw results are made up, first as the paper has them, then with one of them wrong.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from lab.errors import RemError
from lab.experiment.memory_points import (
    OPERS,
    SLICE,
    SLICES,
    THREADS,
    alone,
    beyond,
    inside,
    points,
)
from lab.experiment.run import Experiment
from lab.experiment.xeon import (
    DRAM,
    GIB,
    MEMORIES,
    NVRAM,
    Blocks,
    Files,
    Project,
    elapsed_ns,
    interval_percent,
    moved,
)
from lab.experiment.xeon_power import server_mw
from lab.machine.memories import controller_of
from lab.result import Result
from tests.support import verdicts
from tests.support.verdicts import counted

MS = 1_000_000
# GiB/s as the paper has them, beyond the caches.
BEYOND = {
    (DRAM, "read"): 121.0,
    (NVRAM, "read"): 21.0,
    (DRAM, "write"): 56.0,
    (NVRAM, "write"): 1.7,
}
CACHED = 400.0
# Of one thread: reads drop beyond the first level, writes do not.
ALONE = {("read", 32): 24.0, ("read", 512): 20.0, ("write", 32): 12.0, ("write", 512): 12.0}


def verdict(name: str, raw: Any, tier: str = "ci") -> Result:
    return verdicts.verdict(name, raw, tier)


def sample(threads: int, gib_per_s: float, share: float = 0.1) -> dict[str, float]:
    """A second of it, in which each thread executes for a *share*."""
    ns = 1_000_000_000
    return {
        "bytes": gib_per_s * GIB,
        "ns": ns,
        "executed_ns": ns * threads * share,
        "guest_ns": ns,
        "background_pj": 1000 * ns,
        "refresh_pj": 0,
        "activate_pj": 0,
        "read_pj": gib_per_s * GIB if share < 1 else 0,
        "write_pj": 0,
    }


def memory_rows(change: dict[str, float] | None = None) -> dict[str, Any]:
    """Points of both memories, as in the paper. *change*: GiB/s of the machine, by memory, threads
    and point."""

    def row(memory: str, threads: int, point: Blocks) -> list[dict[str, float]]:
        if point.threads == 1:
            value = ALONE[point.oper, point.block_kib]
            value = (change or {}).get(f"{memory}: {point.name}", value)
            return [sample(1, value, 1.0)]
        is_cached = point == inside(point.oper, threads)
        value = CACHED if is_cached else BEYOND[memory, point.oper]
        value = (change or {}).get(f"{memory}, {threads}: {point.name}", value)
        return [sample(point.threads, value / SLICE, 1.0 if is_cached else 0.1)]

    return {
        memory: {
            str(threads): {point.name: row(memory, threads, point) for point in points(threads)}
            for threads in THREADS
        }
        for memory in SLICES
    }


def f1(change: dict[str, float] | None = None, two: float = 2.1, swept: float = 2.0) -> Any:
    module = Experiment.load("cma-f1").module
    writers = module.TWO_WRITERS.name
    more: dict[str, Any] = {
        f"two{name}": {writers: [sample(2, swept if name else two)]} for name in module.WRITES
    }
    rows = memory_rows()
    for name in module.LOOPS:
        more[name] = {point.name: rows[DRAM]["28"][point.name] for point in module.ALONE}
    for threads in THREADS:
        wide = [beyond(oper, threads).name for oper in OPERS]
        of = {name: rows[NVRAM][str(threads)][name] for name in wide}
        more[f"{module.RANDOM}, {threads}"] = of
    more[f"{module.SLOW_BUS}, 56"] = {name: rows[DRAM]["56"][name] for name in wide}
    return {"rows": memory_rows(change), "more": more}


def test_f1_as_in_the_paper_passes() -> None:
    result = verdict("cma-f1", f1())
    assert result.ok and counted(result) == (0, 0)


def test_f1_wrong_rates_are_red() -> None:
    wide, cached = beyond("read", 28).name, alone("write", 512).name
    for memory, value in ((NVRAM, 125.0), (DRAM, 1500.0)):  # faster than DRAM, than the caches
        assert not verdict("cma-f1", f1({f"{memory}, 28: {wide}": value}), "full").ok
    assert not verdict("cma-f1", f1({f"{NVRAM}: {cached}": 8.0})).ok
    assert verdict("cma-f1", f1(), "full").ok


def test_f1_sweeps_are_the_full_tiers() -> None:
    raw = f1() | {"more": {}}
    assert verdict("cma-f1", raw).ok
    assert not verdict("cma-f1", raw, "full").ok


def test_f1_faster_writes_are_accepted_only_if_eviction_is_why() -> None:
    assert counted(verdict("cma-f1", f1(two=5.0, swept=3.0), "full")) == (1, 0)
    assert counted(verdict("cma-f1", f1(two=5.0, swept=5.0), "full")) == (0, 1)


def test_f4_as_in_the_paper_passes() -> None:
    assert verdict("cma-f4", memory_rows()).ok


def test_f4_power_that_grows_beyond_the_caches_is_red() -> None:
    raw = memory_rows()
    for one in raw[NVRAM]["28"][beyond("read", 28).name]:
        one["read_pj"] *= 100
    assert not verdict("cma-f4", raw).ok
    raw = memory_rows()
    for one in raw[NVRAM]["28"][alone("read", 512).name]:
        one["executed_ns"] *= 0.1
    assert not verdict("cma-f4", raw).ok


def test_power_is_of_cores_that_work_wait_and_are_parked() -> None:
    one = {"ns": 100, "executed_ns": 100, "activate_pj": 0, "read_pj": 5000, "write_pj": 0}
    busy = server_mw(one, 100, 28_000, rest_mw=0)
    assert busy == pytest.approx(7321 + 55 * 150 + 50 + 28_000)
    waits = server_mw(one | {"executed_ns": 0}, 100, 28_000, stalled_part=0.5, rest_mw=0)
    assert busy - waits == pytest.approx(7321 / 2)


def f2(change: dict[str, float] | None = None) -> dict[str, Any]:
    value = {(DRAM, "read", 4): 14.0, (DRAM, "read", 7): 15.5, (NVRAM, "read", 4): 5.4,
             (NVRAM, "read", 7): 5.2, (DRAM, "write", 4): 2.0, (DRAM, "write", 7): 2.0,
             (NVRAM, "write", 4): 0.84, (NVRAM, "write", 7): 0.8}  # fmt: skip
    module = Experiment.load("cma-f2").module
    raw = {}
    for memory in (DRAM, NVRAM):
        rows = {
            Files(oper, threads).name: [
                (change or {}).get(f"{memory} {oper} {threads}", gib) * GIB / 1e9
            ]
            for (of, oper, threads), gib in value.items()
            if of == memory
        }
        raw[memory] = rows
        for case in module.SWEEP:
            raw[f"{memory}, {case}"] = deepcopy(rows)
    return raw


def test_f2_as_in_the_paper_passes() -> None:
    result = verdict("cma-f2", f2())
    assert result.ok and counted(result)[1] == 0


def test_f2_rates_that_differ_are_deviations() -> None:
    fast = {"DRAM read 7": 30.0}
    assert counted(verdict("cma-f2", f2(fast), "full")) == (0, 2)  # and the ratio
    raw = f2(fast)
    raw["DRAM, in order"] = f2()["DRAM, in order"]
    assert counted(verdict("cma-f2", raw, "full")) == (2, 0)
    assert not verdict("cma-f2", f2({"NVRAM read 4": 2.0})).ok
    assert not verdict("cma-f2", f2({"NVRAM write 4": 3.0})).ok  # faster than DRAM


def built(ns: float, says: str = "17") -> dict[str, Any]:
    return sample(8, 10.0) | {"ns": ns, "busy_ns": 7 * ns, "executed_ns": 5 * ns, "says": says}


def f3(factor: float, says: str = "17") -> dict[str, Any]:
    return {
        DRAM: {jobs: [built(1000 * MS)] for jobs in ("8 jobs", "7 jobs")},
        NVRAM: {jobs: [built(1000 * MS * factor, says)] for jobs in ("8 jobs", "7 jobs")},
    }


def test_f3_as_in_the_paper_passes() -> None:
    assert verdict("cma-f3", f3(1.25)).ok


@pytest.mark.parametrize("factor", [0.9, 1.7, 5.0])
def test_f3_other_factor_is_red(factor: float) -> None:
    assert not verdict("cma-f3", f3(factor)).ok


def test_f3_other_program_is_red() -> None:
    assert not verdict("cma-f3", f3(1.25, "18")).ok


def far(change: dict[str, float] | None = None) -> dict[str, Any]:
    module = Experiment.load("cma-far").module
    value = {DRAM: 60.0, NVRAM: 18.0, "NVRAM, far": 16.0, "Memory Mode": 50.0,
             module.SMALL_MODE: 12.0, module.SLOW_LINK: 5.0}  # fmt: skip
    rows: dict[str, Any] = {name: {} for name in value}
    for name, gib in value.items():
        for oper in OPERS:
            here = (change or {}).get(f"{name}: {oper}", gib)
            rows[name][beyond(oper, 28).name] = [sample(7, here / SLICE)]
    return {"rows": rows, "make": {}}


def test_far_memories_in_their_order_pass() -> None:
    assert verdict("cma-far", far()).ok


@pytest.mark.parametrize(
    "change",
    [
        {"NVRAM, far: read": 21.0},
        {"Memory Mode: write": 70.0},
        {"Memory Mode: read": 11.0},
        {"Memory Mode, DRAM too small: read": 51.0},
        {"NVRAM, far, a tenth of the links: read": 17.0},
    ],
)
def test_far_other_order_is_red(change: dict[str, float]) -> None:
    assert not verdict("cma-far", far(change)).ok


# What is read of sysbench.

SAID = """
Total operations: 8 (  342.40 per second)
64.00 MiB transferred (2739.17 MiB/sec)
General statistics:
    total time:                          0.0157s
    total number of events:              8
Latency (ms):
         min:                                    3.65
         sum:                                   32.00
"""
FILES_SAID = """
File operations:
    reads/s:                      0.00
    writes/s:                     3000.00
    fsyncs/s:                     1000.00
Throughput:
    written, MiB/s:               46.88
General statistics:
    total number of events:              4000
Latency (ms):
         sum:                                  1000.00
"""


def test_rate_is_bytes_over_the_time_in_events() -> None:
    assert moved(SAID, 8 << 20, 2) == (64 << 20, 16 * MS)


def test_several_threads_take_until_the_last_has_ended() -> None:
    assert elapsed_ns(SAID) == pytest.approx(15.7 * MS)
    with pytest.raises(RemError, match="no total time"):
        elapsed_ns(SAID.replace("total time", "time"))


def test_fsyncs_move_no_bytes() -> None:
    assert moved(FILES_SAID, 16 << 10, 4) == (3000 * (16 << 10), 250 * MS)


def test_what_sysbench_does_not_print_is_an_error() -> None:
    for said in ("", SAID.replace("sum:", "sun:"), SAID.replace("events:", "event:")):
        with pytest.raises(RemError, match="no result"):
            moved(said, 1, 1)


def test_words_of_points() -> None:
    words = Blocks("write", 28, 4096, 3).words
    assert "--memory-total-size=344064K" in words and "--memory-scope=local" in words
    assert "--file-test-mode=seqwr" in Files("write", 7).words
    assert "-j28" in Project(300, 40, 2, 28).words
    assert "(300, 40)" in Project(300, 40, 2, 28).prepare


def test_memories_are_words_of_rem_run() -> None:
    for word in MEMORIES.values():
        assert controller_of(word)


def test_interval_is_of_five() -> None:
    assert interval_percent([1.0] * 4) == 0
    assert interval_percent([1.0] * 5) == 0
    # Standard deviation 1.58, over the root of 5, times 2.776, over 3.
    assert interval_percent([1.0, 2, 3, 4, 5]) == pytest.approx(65.4, abs=0.1)

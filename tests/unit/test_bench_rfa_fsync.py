# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The judgement of `rem bench rfa` of fsync that ends in memory: what it adds up, what it misses,
and which runs it refuses to count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.bench import rfa, rfa_whole
from lab.bench import rfa_fsync as fsync
from lab.bench.rfa_fsync import CACHES, EATMYDATA, MEMORY, OFF, PLP, SSD, Run, Runs
from lab.bench.rfa_stops import Stops
from lab.commands.bench import RfaWords, rfa_plans
from lab.errors import RemError, UsageError
from lab.result import Result

STOPS = Stops(longest_ns=40_000, bound_ns=2_000_000, hold_up_ns=55_000_000)
OFF_RUN = Run(100.0, in_memory=0, by_disk=0, drains=0, flushes=200)
MEMORY_RUN = Run(1000.0, in_memory=2000, by_disk=3, drains=1, flushes=4)
EATMYDATA_RUN = Run(1100.0, in_memory=0, by_disk=0, drains=0, flushes=4)


def runs(off: float = 100.0, memory: float = 1000.0, most: float = 1100.0) -> Runs:
    found = {}
    for disk, times in ((SSD, 1), (PLP, 4)):
        found["mail", disk, OFF] = replace(OFF_RUN, rate=off * times)
        found["mail", disk, MEMORY] = replace(MEMORY_RUN, rate=memory)
    found["mail", SSD, EATMYDATA] = replace(EATMYDATA_RUN, rate=most)
    # The cheaper policy stands beside, and counts for no aim.
    found["mail", SSD, CACHES] = replace(MEMORY_RUN, rate=memory / 100)
    return found


def judged(
    found: dict[str, Runs], stops: Stops = STOPS, cost: float = 0.0
) -> tuple[Result, list[str]]:
    result = Result("rfa")
    for memory, ones in found.items():
        fsync.add_figures(result, memory, ones)
    return result, fsync.judge(result, found, [STOPS, stops], cost)


def test_all_aims_reached_is_ok() -> None:
    result, missed = judged({"dram": runs()})
    value = {name: figure.value for name, figure in result.figures.items()}
    assert result.ok and not missed
    assert (value["fsync_gain"], value["fsync_gain_plp"]) == (10.0, 2.5)
    assert value["vs_eatmydata"] == 0.909 and value["mail_dram_memory_gain"] == 10.0
    assert (value["stop_max_ns"], value["stop_margin_ns"]) == (40_000, 53_000_000)
    assert value["off_cost"] == 0
    assert {figure.kind for figure in result.figures.values()} == {"modelled", "counted"}


def test_least_of_programs_and_memories_counts() -> None:
    result, missed = judged({"dram": runs(), "optane": runs(memory=499.0, most=500.0)})
    assert not result.ok and result.figures["fsync_gain"].value == 4.99
    assert result.figures["fsync_gain_at"].value == "mail on optane"
    assert result.figures["vs_eatmydata_at"].value == "mail on dram"
    assert len(missed) == 1 and "fsync_gain 4.99 (mail on optane)" in missed[0]


def test_aims_are_strict() -> None:
    assert judged({"dram": runs(memory=500.0, most=500.0)})[0].ok
    assert not judged({"dram": runs(memory=989.0)})[0].ok
    assert not judged({"dram": runs()}, cost=1.0)[0].ok
    assert not judged({"dram": runs()}, replace(STOPS, bound_ns=55_000_001))[0].ok
    # A Stop that was longer than the kernel's bound counts with what it took.
    late, missed = judged({"dram": runs()}, replace(STOPS, longest_ns=55_000_001))
    assert late.figures["stop_margin_ns"].value == -1 and "stop_margin_ns -1" in missed[1]
    late, missed = judged({"dram": runs()}, replace(STOPS, longest_ns=2_000_001))
    assert not late.ok and len(missed) == 1 and "2000001 ns, over the kernel's bound" in missed[0]


def test_without_persist_there_is_no_gain() -> None:
    result, missed = judged({"dram": runs(memory=100.0)})
    assert result.figures["fsync_gain"].value == 1.0 and not result.ok
    assert len(missed) == 2


@pytest.mark.parametrize(
    ("way", "run", "words"),
    [
        (MEMORY, replace(MEMORY_RUN, in_memory=0), "no fsync ended in memory"),
        (OFF, replace(OFF_RUN, in_memory=1), "1 fsyncs ended in memory"),
        (EATMYDATA, replace(EATMYDATA_RUN, in_memory=2), "2 fsyncs ended in memory"),
        (OFF, replace(OFF_RUN, flushes=0), "no flush"),
        (EATMYDATA, replace(EATMYDATA_RUN, flushes=2200), "is it loaded?"),
    ],
)
def test_run_that_took_another_way_is_refused(way: str, run: Run, words: str) -> None:
    with pytest.raises(RemError, match=words.replace("?", r"\?")):
        fsync.check_way("mail", way, run, OFF_RUN)


@pytest.mark.parametrize(
    ("way", "run"),
    [(OFF, OFF_RUN), (MEMORY, MEMORY_RUN), (CACHES, MEMORY_RUN), (EATMYDATA, EATMYDATA_RUN)],
)
def test_run_that_took_its_way_counts(way: str, run: Run) -> None:
    fsync.check_way("mail", way, run, OFF_RUN)


def test_cost_within_the_spread_is_none() -> None:
    figures = {
        f"{loop}_{name}": 0.0
        for loop in fsync.OFF_COST_LOOPS
        for name in ("insns_over_unpatched", "spread_insns_patched", "spread_insns_unpatched")
    }
    figures |= {"fault_insns_over_unpatched": 2.0, "fault_spread_insns_unpatched": 2.0}
    assert fsync.off_cost(figures | {"syscall_insns_over_unpatched": -2.5}) == 0
    assert fsync.off_cost(figures | {"file_fault_insns_over_unpatched": 0.25}) == 0.25


def test_kept_figures_of_fast_paths_are_there() -> None:
    assert fsync.kept_off_cost() >= 0


COUNTED = "in_memory {}\nby_disk {}\ndrains 1\npages 7\nflushes {}\nfuas {}\n"


def test_counts_are_of_the_run_alone() -> None:
    said = (
        f"{COUNTED.format(5, 2, 10, 3)}=====\n20 2000000000\n=====\n{COUNTED.format(9, 3, 11, 5)}"
    )
    run = fsync.read_run(fsync.PROGRAMS["mail"], said)
    assert run == Run(10.0, in_memory=4, by_disk=1, drains=0, flushes=3)


def test_run_without_counts_is_an_error() -> None:
    with pytest.raises(RemError, match="no counts"):
        fsync.read_run(fsync.PROGRAMS["mail"], "20 2000000000\n")


SYSBENCH = """File operations:
    reads/s:                      0.00
    writes/s:                     6049.11
    fsyncs/s:                     7747.41
"""


@pytest.mark.parametrize(
    ("name", "said", "rate"),
    [
        ("fileio", SYSBENCH, 6049.11),
        (
            "postgres",
            "latency average = 1 ms\ntps = 81.5 (without initial connection time)\n",
            81.5,
        ),
        ("mail", "warm\n20 2000000000\n", 10.0),
        ("sqlite_wal", "5 500000000\n", 10.0),
    ],
)
def test_rate_is_read(name: str, said: str, rate: float) -> None:
    assert fsync.PROGRAMS[name].rate(said) == rate


@pytest.mark.parametrize("name", fsync.PROGRAMS)
@pytest.mark.parametrize("said", ["", "killed\n", "5 0\n"])
def test_program_without_a_result_is_an_error(name: str, said: str) -> None:
    rate: Callable[[str], float] = fsync.PROGRAMS[name].rate
    with pytest.raises(RemError, match="no result"):
        rate(said)


def test_disks_are_in_the_table_of_parts() -> None:
    ssd, plp = fsync.disk_words(SSD), fsync.disk_words(PLP)
    assert set(ssd) == set(plp) == set(fsync.DISK_NUMBERS)
    assert ssd["flush_ns"] > 100 * plp["flush_ns"] > 0
    assert ssd["write_ns"] == plp["write_ns"]


def test_words_become_plans() -> None:
    full, cache, whole = rfa_plans(RfaWords())
    assert full == fsync.Plan() and cache == rfa.Plan() and whole == rfa_whole.Plan()
    short, _, short_whole = rfa_plans(
        RfaWords(
            size="ci",
            fsync_programs="mail",
            fsync_memories="dram,dram",
            fsync_journal="fast-commit",
        )
    )
    assert short.seconds < full.seconds and short.stops < full.stops
    assert short_whole.seconds == short.seconds
    assert (short.programs, short.memories) == (("mail",), ("dram",))
    assert (full.journal, short.journal) == ("default", "fast-commit")
    assert cache.rules == ("heat",)
    assert rfa_plans(RfaWords(rules="all"))[1].rules == tuple(rfa.RULES)


@pytest.mark.parametrize(
    "words",
    [
        RfaWords(size="half"),
        RfaWords(fsync_programs="tape"),
        RfaWords(fsync_memories="tape"),
        RfaWords(fsync_journal="tape"),
        RfaWords(memory="tape"),
        RfaWords(programs="tape"),
        RfaWords(whole_programs="tape"),
        RfaWords(percents="25%"),
        RfaWords(rules="heat,tape"),
    ],
)
def test_wrong_word_is_named(words: RfaWords) -> None:
    with pytest.raises(UsageError, match="tape|half|25%"):
        rfa_plans(words)

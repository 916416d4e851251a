# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `rem bench rfa` makes of its runs of both recommendations together."""

from __future__ import annotations

import os
import subprocess

import pytest

from lab.bench import rfa_whole as whole
from lab.bench.rfa import resident_of
from lab.bench.rfa_fsync import MEMORY, OFF
from lab.bench.rfa_whole import BOTH, DRAM, NVRAM, RFA3, RFA4, Found, Plan, Run
from lab.machine.memories import DRAM_CACHE
from lab.result import Result
from lab.verdict import BrokenError

RESIDENT_BYTES = 40 << 20
RATES = {DRAM: 100.0, NVRAM: 50.0, RFA3: 200.0, RFA4: 60.0, BOTH: 90.0}


def one(rate: float, promoted: int = 0) -> Run:
    return Run(rate, 1e6 / rate, in_memory=1, resident_bytes=RESIDENT_BYTES, promoted=promoted)


def measured(monkeypatch: pytest.MonkeyPatch, promoted: int = 5) -> tuple[Found, list[int]]:
    sizes = []

    def on(_plan: Plan, memory: str, names: tuple[str, ...], size_bytes: int = 0) -> Found:
        sizes.append(size_bytes)
        if memory == DRAM_CACHE:
            return {name: {OFF: one(RATES[DRAM])} for name in names}
        if not size_bytes:
            return {name: {OFF: one(RATES[NVRAM]), MEMORY: one(RATES[RFA3])} for name in names}
        off, memory_run = one(RATES[RFA4], promoted), one(RATES[BOTH], promoted)
        return {name: {OFF: off, MEMORY: memory_run} for name in names}

    monkeypatch.setattr(whole, "_on", on)
    monkeypatch.setattr(whole, "need_all", lambda _: {})
    return whole.measure(Plan(programs=("redis", "make"))), sizes


def test_five_ways_of_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    found, sizes = measured(monkeypatch)
    assert {name: set(runs) for name, runs in found.items()} == {
        name: {DRAM, NVRAM, RFA3, RFA4, BOTH} for name in ("redis", "make")
    }
    assert {way: run.rate for way, run in found["redis"].items()} == RATES
    assert sorted(sizes) == [0, 0, 10 << 20, 10 << 20], "a quarter of what the program has on DRAM"


def test_dram_that_nothing_moved_to_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokenError, match="no page has moved"):
        measured(monkeypatch, promoted=0)


def test_each_way_is_compared_with_dram(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = measured(monkeypatch)
    found["make"][BOTH] = one(100.0, 5)
    result, lines = Result("rfa"), []
    monkeypatch.setattr(whole, "measure", lambda plan: found)
    whole.run(Plan(), result, lines.append)
    value = {name: figure.value for name, figure in result.figures.items()}
    assert value["redis_rfa3_vs_dram"] == 2.0 and value["redis_both_vs_dram"] == 0.9
    assert value["redis_nvram_energy_vs_dram"] == 2.0
    assert [value[f"{way}_beats_dram"] for way in (NVRAM, RFA3, RFA4, BOTH)] == [0, 2, 0, 1]
    assert result.ok and len(lines) == 1 and lines[0].startswith("redis: 0.90 of the rate")


def resident_kib(processes: str) -> int:
    text = resident_of(processes, "Shmem")
    done = subprocess.run(["bash", "-c", text], stdout=subprocess.PIPE, text=True, check=False)
    return int(done.stdout)


def test_resident_memory_is_that_of_all_processes() -> None:
    assert resident_kib("none") == 0
    stopped = [subprocess.Popen(["bash", "-c", "kill -STOP $$"]) for _ in range(2)]
    for process in stopped:
        os.waitpid(process.pid, os.WUNTRACED)  # from here on its memory does not change
    try:
        each = [resident_kib(str(process.pid)) for process in stopped]
        assert min(each) > 0
        assert resident_kib(" ".join(str(process.pid) for process in stopped)) == sum(each)
    finally:
        for process in stopped:
            process.kill()
            process.wait()


def test_commands_are_shell_that_can_be_filled_in() -> None:
    for load in whole.LOADS.values():
        program = load.program
        for text in (program.once, program.fresh, program.end):
            assert "{{" not in text.format(env="")
        assert "000000000" not in program.run or "3000000000" in program.run.format(
            env="", seconds=3
        )

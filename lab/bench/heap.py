# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The persistent heap compared with libpmemobj and with the machine's limits: `rem bench heap`.

Everything is native and interleaved: each round runs a short batch of every contender; figures are
medians over rounds, with half the distance of the quartiles as spread. The peer runs on a file in
the same folder, with PMEM_IS_PMEM_FORCE=1, so that neither calls msync in the timed part: strace
counts the calls. (libpmemobj always calls msync for the header of its pool.)
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.result import Kind, Result
from lab.run import find_tool, run
from lab.setup.heap import HeapBench

# Files here are in the page cache only, so that no disk is measured.
FOLDER = Path("/dev/shm")
ENV = {"PMEM_IS_PMEM_FORCE": "1"}
LIMIT_S = 1800.0
TRACE_ROUNDS = 3
SYNC_CALLS = ("msync", "fsync", "fdatasync", "sync_file_range")
BEGIN = "lines are written back by"  # printed by the benchmark when the timed part begins
COUNTED = ("states", "records")
# For counts of instructions: one update more or less does not change the fourth digit.
COUNTED_UPDATES, COUNTED_ENTRIES = 20_000, 2000

# Required bounds of ratios.
REQUIRED_AT_LEAST = {
    "redo_vs_pmdk": 2.0,
    "undo_vs_pmdk": 2.0,
    "swap_vs_pmdk": 2.0,
    "alloc_free_vs_pmdk": 2.0,
    "insert_vs_pmdk": 2.0,
    "insert_undo_vs_pmdk": 2.0,
    "insert_stm_vs_pmdk": 2.0,
    "remove_vs_pmdk": 2.0,
}
REQUIRED_AT_MOST = {
    "redo_vs_floor": 1.3,
    "undo_vs_floor": 1.3,
    "swap_vs_floor": 1.3,
    "alloc_free_vs_floor": 1.3,
    "update_small_vs_floors": 1.3,
    "insert_vs_floor": 1.3,
    "remove_vs_floor": 1.3,
    "read_tx_over_none_ns": 5.0,
    # Flush on fail is plain memory: the same code on the same table, plain code and the heap's own.
    **{
        f"{prefix}{table}fof_vs_{allocator}": 1.05
        for allocator in ("glibc", "mimalloc")
        for prefix in ("", "small_", "instructions_")
        for table in ("", "map_")
    },
}

# Bounds that are missed, as far as that is accepted: the value, and why.
_MISSES = "its bucket and chain are not in the cache, which the floor does not wait for"
ACCEPTED_AT_MOST = {"insert_vs_floor": (4.5, _MISSES), "remove_vs_floor": (1.8, _MISSES)}


@dataclass(frozen=True)
class Measured:
    """One line of the benchmark's output."""

    name: str
    value: float
    unit: str
    spread_percent: float


def parse(text: str) -> list[Measured]:
    """The lines of the benchmark's standard output."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) != 4:
            raise InfraError(f"the heap's benchmark wrote {line!r}: rebuild it with `./rem setup`")
        found.append(Measured(words[0], float(words[1]), words[2], float(words[3])))
    return found


def accepted(measured: dict[str, float]) -> dict[str, str]:
    """Return the missed requirements whose miss is accepted, each with its line of words."""
    return {
        name: f"{name} is {measured[name]:.2f}, not {REQUIRED_AT_MOST[name]}: {why}"
        for name, (bound, why) in ACCEPTED_AT_MOST.items()
        if REQUIRED_AT_MOST[name] < measured.get(name, 0.0) <= bound
    }


def required(measured: dict[str, float]) -> list[str]:
    """Return the missed requirements in words, but those whose miss is accepted; a figure that was
    not measured misses its own.
    """
    missed = [
        f"{name} was not measured"
        for name in (*REQUIRED_AT_LEAST, *REQUIRED_AT_MOST)
        if name not in measured
    ]
    missed += [
        f"{name} is {measured[name]:.2f}, at least {bound} is required"
        for name, bound in REQUIRED_AT_LEAST.items()
        if name in measured and measured[name] < bound
    ]
    missed += [
        f"{name} is {measured[name]:.2f}, at most {bound} is required"
        for name, bound in REQUIRED_AT_MOST.items()
        if measured.get(name, 0.0) > bound and name not in accepted(measured)
    ]
    return missed


def measure(bench: HeapBench, what: str, words: list[str]) -> list[Measured]:
    """Run the benchmark in a folder of its own and read its figures."""
    with tempfile.TemporaryDirectory(prefix="rem-heap-", dir=scratch_folder()) as folder:
        argv = [bench.bench, what, "--folder", folder, "--peer", bench.peer, *words]
        done = run([str(word) for word in argv], env=ENV, timeout_s=LIMIT_S)
        return parse(done.stdout)


def sync_calls(bench: HeapBench) -> int:
    """Return the number of calls in the timed part of a short run that write anything back."""
    strace = find_tool("strace")
    if strace is None:
        raise InfraError("no strace: `apt-get install strace`")
    with tempfile.TemporaryDirectory(prefix="rem-heap-", dir=scratch_folder()) as folder:
        trace = Path(folder) / "trace"
        calls = "trace=write," + ",".join(SYNC_CALLS)
        argv = [strace, "-f", "-e", calls, "-o", trace, bench.bench, "ops", "--folder", folder]
        words = ["--peer", bench.peer, "--rounds", TRACE_ROUNDS, "--objects", 1000, "--skip-check"]
        run([str(word) for word in [*argv, *words]], env=ENV, timeout_s=LIMIT_S)
        return count_sync_calls(trace.read_text(encoding="utf-8", errors="replace"))


def count_sync_calls(trace: str) -> int:
    """Count the calls in a trace after the timed part has begun."""
    _, begin, measured = trace.partition(f'write(2, "{BEGIN}')
    if not begin:
        raise InfraError(f"the heap's benchmark did not print {BEGIN!r}: rebuild it: `./rem setup`")
    return len(re.findall(rf"\b({'|'.join(SYNC_CALLS)})\(", measured))


def instructions_per_update(bench: HeapBench, memory: str) -> float:
    """Return instructions of one update of a small table in that memory: `fof`, `glibc`,
    `mimalloc`, and with the prefix `map-` those of the heap's own table there.

    Counted by valgrind, so the figure does not depend on other work of the host. The difference of
    two runs excludes the program's work before its first update.
    """
    once, twice = (_instructions(bench, memory, times * COUNTED_UPDATES) for times in (1, 2))
    return (twice - once) / COUNTED_UPDATES


def count_instructions(bench: HeapBench, result: Result) -> None:
    """Count the instructions of an update in each kind of plain memory."""
    for table in ("", "map-"):
        counts = {
            memory: instructions_per_update(bench, table + memory)
            for memory in ("fof", "glibc", "mimalloc")
        }
        prefix = table.replace("-", "_")
        for memory, count in counts.items():
            name = f"{prefix}update_{memory}_instructions"
            result.add(name, count, "instructions", "counted")
            if memory != "fof":
                name = f"instructions_{prefix}fof_vs_{memory}"
                result.add(name, counts["fof"] / count, "x", "counted")


def _instructions(bench: HeapBench, memory: str, updates: int) -> int:
    valgrind = find_tool("valgrind")
    if valgrind is None:
        raise InfraError("no valgrind: `apt-get install valgrind`")
    counter = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    with tempfile.TemporaryDirectory(prefix="rem-heap-", dir=scratch_folder()) as folder:
        argv = [*counter, bench.bench, "updates", "--folder", folder, "--memory", memory]
        words = ["--operations", updates, "--entries", COUNTED_ENTRIES]
        done = run([str(word) for word in [*argv, *words]], timeout_s=LIMIT_S)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if found is None:
        raise InfraError("valgrind printed no count of instructions")
    return int(found[1].replace(",", ""))


def ops(bench: HeapBench, rounds: int, objects: int) -> tuple[Result, list[str], list[str]]:
    """Measure all single operations; return also the requirements that are missed, and those whose
    miss is accepted.
    """
    words = ["--rounds", str(rounds), "--objects", str(objects)]
    found = measure(bench, "ops", words)
    result = as_result("bench heap", found)
    result.add("msync_calls", sync_calls(bench), "calls", "counted")
    count_instructions(bench, result)
    values = {
        name: one.value for name, one in result.figures.items() if isinstance(one.value, float)
    }
    missed, let_pass = required(values), list(accepted(values).values())
    result.add("deviations_accepted", len(let_pass), "figures", "counted")
    if result.figures["msync_calls"].value != 0:
        missed.append("the benchmark called msync: it measures system calls")
    result.ok = not missed
    return result, missed, let_pass


def figure5(bench: HeapBench, operations: int) -> Result:
    """Figure 5 of the WSP paper."""
    words = ["--operations", str(operations), "--skip-check"]
    return as_result("bench heap figure 5", measure(bench, "fig5", words))


def as_result(name: str, found: list[Measured]) -> Result:
    result = Result(name)
    for one in found:
        kind: Kind = "counted" if one.unit in COUNTED else "native"
        result.add(one.name, one.value, one.unit, kind)
        if kind == "native":
            result.add(f"{one.name}_spread", one.spread_percent, "%", "native")
    return result


def scratch_folder() -> Path | None:
    """Shared memory if it has room for the heaps, else the default folder."""
    enough = FOLDER.is_dir() and shutil.disk_usage(FOLDER).free > 4 << 30
    return FOLDER if enough else None

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Points of `sysbench memory` that cma-f1 judges by their rates and cma-f4 by their power.

They are measured on a slice: a quarter of the paper's cores, of a socket's last level and of the
DIMMs. Threads have memory of their own and DIMMs share nothing, so all of the machine moves four
times as much. Blocks are larger than the caches and the DIMMs' own buffers.
"""

from __future__ import annotations

from typing import Any

from lab.bench.cost import REQUEST_PJ
from lab.experiment.run import Context
from lab.experiment.xeon import (
    DIMMS,
    DRAM,
    NVRAM,
    REPEATS,
    XEON,
    Blocks,
    Place,
    measured,
    rates,
    run_counted,
)

SLICE = 4
SLICES = {
    DRAM: f"dram:part=ddr4-2933:channels={DIMMS // SLICE}",
    NVRAM: f"optane:dimms={DIMMS // SLICE}",
}
THREADS = (28, 56)  # of the machine
OPERS = ("read", "write")
CACHED_KIB = 65536  # of a thread in all: a millisecond
# Within the first level (48 KiB) and the second (1.25 MiB). Beyond all: 56 MiB of a slice, whose
# caches have 10.5 MiB and 1.3 MiB a core, and whose DIMMs' buffers have 32 MiB.
FIRST_KIB, SECOND_KIB = 32, 512
BEYOND_KIB = {28: 8192, 56: 4096}
CACHES = f"{XEON}:llc_kib={43008 // SLICE}"


def alone(oper: str, block_kib: int) -> Blocks:
    """One thread in its caches."""
    return Blocks(oper, 1, block_kib, CACHED_KIB // block_kib)


def inside(oper: str, threads: int) -> Blocks:
    return Blocks(oper, threads // SLICE, SECOND_KIB, CACHED_KIB // SECOND_KIB)


def beyond(oper: str, threads: int) -> Blocks:
    return Blocks(oper, threads // SLICE, BEYOND_KIB[threads], 6, until_last=True)


ALONE = [alone(oper, kib) for oper in OPERS for kib in (FIRST_KIB, SECOND_KIB)]


def points(threads: int) -> list[Blocks]:
    wide = [it(oper, threads) for oper in OPERS for it in (inside, beyond)]
    return [*ALONE, *wide] if threads == THREADS[0] else wide


def measure_points(it: Context) -> dict[str, Any]:
    """Rows by memory, and by threads of the machine as a text."""
    repeats = 1 if it.is_ci else REPEATS
    jobs = {
        f"{memory}, {threads}": (Place(words, threads // SLICE, CACHES), points(threads) * repeats)
        for threads in THREADS
        for memory, words in SLICES.items()
    }
    found = measured(it, run_counted, jobs)
    return {
        memory: {str(threads): found[f"{memory}, {threads}"] for threads in THREADS}
        for memory in SLICES
    }


def whole_rates(rows: dict[str, Any], point: Blocks) -> list[float]:
    """Of a point of all threads, GiB/s of the whole machine in each sample."""
    return [SLICE * one for one in rates(rows, point)]


def cached_rates(rows: dict[str, Any], oper: str, threads: int) -> list[float]:
    """GiB/s of so many threads in their second levels, which they do not share: one's, times them.

    What all do at once is as short as the scheduler's ticks, and a figure that nothing judges."""
    return [threads * one for one in rates(rows, alone(oper, SECOND_KIB))]


def times(one: dict[str, float], factor: int) -> dict[str, float]:
    """What so many slices or threads execute, and their requests' energy, in the same time."""
    return one | {name: factor * one[name] for name in ("bytes", "executed_ns", *REQUEST_PJ)}

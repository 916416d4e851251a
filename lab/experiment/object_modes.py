# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs on plain memory, on libpmemobj's objects and on its transactions (guest/objects), in the
guest, on a core of LightPC's Xeon (section II-B).

A program is alone on the node, as in the paper. A machine may be smaller by a factor: then so are
the last level and the buffers of the DIMMs, and programs get as much less memory. There are six
channels of each kind. Guest time follows the models; programs are timed by the guest's clock, and
the controller's counters are read before and after.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lab.bench.cost import REQUEST_PJ
from lab.experiment.kept import kept
from lab.experiment.processors import LAST_LEVEL, level_kib
from lab.experiment.run import Context
from lab.experiment.xeon import STATIC_PJ, Place, booted
from lab.machine.machine import Machine
from lab.parts import part_number
from lab.setup.objects import ObjectPrograms
from lab.setup.products import Kernel, Plugin, Root, need_all
from lab.testbed.memory_machine import served, served_and_cached
from lab.testbed.region import WRITE_BACK, talking
from lab.verdict import BrokenError

XEON = "xeon-8280"
LIBRARY = "libpmemobj1"
CHANNELS = 6  # of DRAM, and of Optane
LLC_KIB = level_kib(XEON, LAST_LEVEL)
OPTANE = "optane-200-128"
ACCESS_PJ = ("media_read_pj", "media_write_pj", "buffer_pj")
BUFFER_BYTES = int(part_number(OPTANE, "buffer_bytes"))
NEAR_BYTES = 128 << 20  # an eighth of the machine's NVRAM, as 190 GB before 1.5 TB
DRAM = f"dram:channels={CHANNELS}"
RUN_LIMIT_S = 3600.0  # only for hangs
WARM_UP_PART = 4
MORE_PART = 4  # of the operations, where each does more
PLACE = "/dev/shm/objects"
ENVIRONMENT = ("PMEM_IS_PMEM_FORCE=1",)
# Pages are small in all modes, as those of the pool are: no data moves to a large one meanwhile.
# Addresses are the same in each run.
PREPARE = f"""mkdir -p {PLACE}; echo never >/sys/kernel/mm/transparent_hugepage/enabled
echo 0 >/proc/sys/kernel/randomize_va_space"""
COUNTED = ("reads", "writes", "row_reads", "row_writes", *REQUEST_PJ)
# Lines that were changed without a store, as by a disk, and written meanwhile.
CACHED = ("swept", "unseen")


def caches(smaller: int) -> str:
    return f"{XEON}:llc_kib={LLC_KIB // smaller}"


def optane(smaller: int, times: int = 1) -> str:
    """*times*: what an access takes, over the energy of arrays and buffer."""
    words = f"optane:dimms={CHANNELS}:buffer_bytes={BUFFER_BYTES // smaller}"
    if times == 1:
        return words
    energy = (f"{key}={round(part_number(OPTANE, key) * times)}" for key in ACCESS_PJ)
    return ":".join((words, *energy))


def memory_mode(smaller: int) -> str:
    return f"nmem{optane(smaller).removeprefix('optane')}:cache_bytes={NEAR_BYTES}"


@dataclass(frozen=True)
class Job:
    """A machine, and what runs on it."""

    place: Place
    builds: tuple[str, ...]  # of all works
    kib: int  # of each work
    operations: Mapping[str, int]  # timed, by work
    # Instructions that each operation does besides its own; with each of them they are timed again.
    more: tuple[int, ...] = ()


def numbers_of(said: str, *expected: str) -> dict[str, int]:
    """Of the line of a program; BrokenError if it says something else."""
    pairs = [word.partition("=") for word in words_after(said, *expected)]
    return {key: int(value) for key, _, value in pairs}


def words_after(said: str, *expected: str) -> list[str]:
    words = said.split()
    if words[: len(expected)] != list(expected):
        raise BrokenError("wrong-result", f"{' '.join(expected)} was expected: {said!r}")
    return words[len(expected) :]


def ns_of(said: str) -> int:
    """What the operations took: as many times the median of the pieces as there are, so that a
    stall in one of them is no part of it."""
    pieces = [int(word) for word in words_after(said, "DONE")]
    return round(median(pieces) * len(pieces))


def _counters(machine: Machine) -> dict[str, int]:
    memory, caches = served_and_cached(machine)
    return {name: memory[name] for name in COUNTED} | {name: caches[name] for name in CACHED}


def run_program(machine: Machine, job: Job, work: str, build: str) -> dict[str, Any]:
    """What the operations take after others, and a digest of all results.

    What was changed without a store before is on media when the program begins; when it is counted,
    its own data have filled the caches, and memory has done what it put off. Asking for operations
    is counted, too: some 40 reads.
    """
    operations = job.operations[work]
    machine.run_in_guest(f"rm -f {PLACE}/pool && {WRITE_BACK}", limit_s=RUN_LIMIT_S)
    argv = ["env", *ENVIRONMENT, f"{PLACE}/{work}-{build}", f"{PLACE}/pool", str(job.kib)]
    with talking(machine, argv, RUN_LIMIT_S) as talk:

        def counted(times: int, more: int = 0) -> dict[str, int]:
            words_after(talk.ask("settle"), "SETTLED")
            said, counts = talk.counted(f"{times} {more}", lambda: _counters(machine))
            return counts | {"ns": ns_of(said)}

        words_after(talk.hear(), "READY", work)
        counted(operations // WARM_UP_PART)
        row = counted(operations)
        more_ns = {
            str(more): MORE_PART * counted(operations // MORE_PART, more)["ns"] for more in job.more
        }
        said, _ = talk.rest()  # at the end of its input it checks all results
    return {**row, "operations": operations, "more_ns": more_ns, **numbers_of(said, "OK", work)}


def _run_job(machine: Machine, job: Job, programs: Path) -> dict[str, Any]:
    machine.run_in_guest(PREPARE)
    rows: dict[str, Any] = {}
    for build in job.builds:
        rows[build] = {}
        for work in job.operations:
            machine.guest.put(programs / f"{work}-{build}", f"{PLACE}/{work}-{build}")
            rows[build][work] = run_program(machine, job, work, build)
    counts = served(machine)
    static = sum(counts[name] for name in STATIC_PJ)
    return {"runs": rows, "static_mw": static / counts["guest_ns"]}  # pJ a ns


def measured(it: Context, jobs: Mapping[str, Job]) -> dict[str, Any]:
    """By name of the job: rows by build and work, and what the memory draws when it is not used.

    What was measured on the same code is not repeated."""
    root = Root.having(LIBRARY)
    built = need_all([Kernel(), Plugin(), root, ObjectPrograms()])
    programs = built[ObjectPrograms()]
    keys = (built[Kernel()].key, built[Plugin()].parent.name, programs.name)
    folder = it.out.parent / "objects"

    def file_of(job: Job) -> str:
        text = json.dumps([asdict(job), str(built[root])])
        return "-".join((*keys, hashlib.sha256(text.encode()).hexdigest()[:16])) + ".json"

    files = {name: folder / file_of(job) for name, job in jobs.items()}

    def measure(missing: list[str]) -> Iterator[tuple[str, Any]]:
        for number, name in enumerate(missing):
            with booted(jobs[name].place, f"objects-{number}", built[root]) as machine:
                yield name, _run_job(machine, jobs[name], programs)

    return kept(files, measure)

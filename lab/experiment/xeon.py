# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine of the core-memory-age paper, for experiments: cores of a Xeon Gold 6330 on the
memories that it can have, and programs that are timed on them.

Cores are out of order (models/memory/src/window.rs). The machine has one socket with all DIMMs of
the paper's two, and one thread a core. Guest time follows the models, and programs are timed by
the guest's clock. sysbench is Debian's; a rate is what its threads moved over the time that they
were in its events, since all else of so short a run is its start, or until the last has ended
(Blocks.until_last), less that of a run with one pass.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from lab.bench.cost import REQUEST_PJ
from lab.errors import RemError
from lab.experiment.kept import kept
from lab.experiment.run import Context
from lab.machine.machine import Machine
from lab.setup.products import Kernel, Plugin, need_all
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on, served
from lab.testbed.region import WRITE_BACK

XEON = "xeon-6330"
# A core whose loads all depend on each other: the other bound.
IN_ORDER = f"{XEON}:in-order"
DRAM, NVRAM, FAR, MODE = "DRAM", "NVRAM", "NVRAM, far", "Memory Mode"
DIMMS = 8  # Core-Memory Age, 2.1: four at each of two sockets
NEAR_BYTES = 256 << 20  # a quarter of the machine's NVRAM, as 256 GB before 1024 GB
MEMORIES = {
    DRAM: "dram:part=ddr4-2933",
    NVRAM: f"optane:dimms={DIMMS}",
    FAR: f"optane:dimms={DIMMS}:far=on",
    MODE: f"nmem:dram=ddr4-2933:dimms={DIMMS}:cache_bytes={NEAR_BYTES}",
}
BOOT_LIMIT_S = 1800.0
RUN_LIMIT_S = 7200.0  # only for hangs
REPEATS = 5
T_OF_FIVE = 2.776  # two-sided 95 % of Student's t with four degrees of freedom
GIB, KIB = 1 << 30, 1 << 10
SHORTEST_NS = 500_000  # of a thread's events: sysbench prints their sum in 10 us
SHORTEST_TOTAL_NS = 5_000_000  # of several threads: it prints their total time in 100 us
STATIC_PJ = ("background_pj", "refresh_pj")  # grow with time
COUNTED = ("guest_ns", "reads", "writes", *STATIC_PJ, *REQUEST_PJ)


@dataclass(frozen=True)
class Place:
    """A machine: its memory and caches as words of `rem run`, and its CPUs."""

    memory: str
    cpus: int
    caches: str = XEON


@dataclass(frozen=True)
class Blocks:
    """`sysbench memory`: each thread goes through a block of its own.

    *passes*: how often they all do so, about. *until_last*: they compete for memory, which those
    that are done leave to the others, so that the time until the last one's end counts.
    """

    oper: str
    threads: int
    block_kib: int
    passes: int
    until_last: bool = False

    @property
    def name(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.oper}, {threads}, {self.block_kib} KiB"

    @property
    def bytes(self) -> int:
        """Of one event."""
        return self.block_kib * KIB

    @property
    def words(self) -> str:
        total_kib = self.threads * self.block_kib * self.passes
        return (
            f"sysbench memory --threads={self.threads} --memory-scope=local --time=0"
            f" --memory-block-size={self.block_kib}K --memory-total-size={total_kib}K"
            f" --memory-oper={self.oper} run"
        )


FILES, FILE_BYTES, FILE_BLOCK = 8, 16 << 20, 16 << 10  # the block is sysbench's usual one
FILE_WORDS = (
    f"--file-num={FILES} --file-total-size={FILES * FILE_BYTES} --file-block-size={FILE_BLOCK}"
)


@dataclass(frozen=True)
class Files:
    """`sysbench fileio`, through all files once: what it reads is cached by the kernel; what it
    writes has no disk, so that its fsync after each 100 writes ends at once."""

    oper: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.oper}, {self.threads} threads"

    @property
    def bytes(self) -> int:
        """Of one event."""
        return FILE_BLOCK

    @property
    def words(self) -> str:
        events = FILES * FILE_BYTES // FILE_BLOCK
        mode = "seqrd" if self.oper == "read" else "seqwr"
        return (
            f"cd /dev/shm/files && sysbench fileio {FILE_WORDS} --threads={self.threads}"
            f" --file-test-mode={mode} --time=0 --events={events} run"
        )


PREPARE_FILES = (
    f"mkdir -p /dev/shm/files && cd /dev/shm/files && sysbench fileio {FILE_WORDS} prepare"
    " >/dev/null && cat /dev/shm/files/* >/dev/null"
)


@dataclass(frozen=True)
class Project:
    """A C project that make builds: its files, functions of each, and how."""

    files: int
    functions: int
    level: int  # of gcc's optimization
    jobs: int

    @property
    def prepare(self) -> str:
        """Makes it, and has each tool run once, so that none comes from the disk later."""
        return rf"""rm -rf /dev/shm/p && mkdir /dev/shm/p && cd /dev/shm/p && perl -e '
my ($files, $functions) = ({self.files}, {self.functions});
for my $f (0..$files - 1) {{
  open my $o, ">", "f$f.c"; my @n = map {{ "f${{f}}_$_" }} 0..$functions - 1;
  print $o "static int $_(int *a, int n) {{ int s = n; for (int i = 0; i < n; i++)",
    " s += a[i % 16] * i ^ (s >> $f % 7); return s; }}\n" for @n;
  print $o "int f$f(int *a, int n) {{ return ", join(" + ", map {{ "$_(a, n)" }} @n), "; }}\n";
}}
open my $o, ">", "main.c"; print $o "#include <stdio.h>\n";
print $o "int f$_(int *a, int n);\n" for 0..$files - 1;
print $o "int main(void) {{ int a[16], s = 0; for (int i = 0; i < 16; i++) a[i] = i;\n";
print $o "s += f$_(a, $_ + 9);\n" for 0..$files - 1;
print $o "printf(\"%d\\n\", s); return 0; }}\n";
' && printf 'CC = gcc\nCFLAGS = -O{self.level} -fwrapv -pipe\nprog: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n' >Makefile && make -s f0.o && gcc -shared -o f0.so f0.o && rm -f f0.o f0.so"""  # noqa: E501

    @property
    def words(self) -> str:
        """Prints seconds (elapsed, user, system) to its errors, and what the program says."""
        return (
            "cd /dev/shm/p && rm -f *.o prog && "
            f"bash -c 'TIMEFORMAT=\"%3R %3U %3S\"; time make -s -j{self.jobs} prog' && ./prog"
        )


def booted(place: Place, name: str, root: Path | None = None) -> AbstractContextManager[Machine]:
    """A guest that answers, of the usual root or another; destroyed at the end."""
    config = make_config(name, place.cpus)
    config = replace(config, root=root or config.root)
    return booted_on(place.memory, config, place.caches, BOOT_LIMIT_S)


def counters(machine: Machine, cpus: int) -> dict[str, int]:
    """What the controller has served so far, and for how long cores have executed instructions."""
    found = served(machine)
    assert machine.plugin is not None, "the machine is off"
    snapshot = machine.plugin.read()
    executed_ns = sum(snapshot.count[:cpus]) * snapshot.cycle_ps // 1000
    return {"executed_ns": executed_ns, **{name: found[name] for name in COUNTED}}


_EVENTS = re.compile(r"total number of events: +(\d+)")
_SUM = re.compile(r"^ +sum: +([\d.]+)$", re.M)
_OPERATIONS = re.compile(r"^ +(reads|writes|fsyncs)/s: +([\d.]+)$", re.M)


def moved(said: str, bytes_each: int, threads: int) -> tuple[float, float]:
    """From what sysbench printed: the bytes that it moved, and the time of a thread's events in ns.

    RemError if it printed neither."""
    events, total_ms = _EVENTS.search(said), _SUM.search(said)
    if events is None or total_ms is None:
        raise RemError(f"sysbench printed no result: {said.strip()[-300:]!r}")
    rates = {name: float(rate) for name, rate in _OPERATIONS.findall(said)}
    share = 1 - rates.get("fsyncs", 0.0) / (sum(rates.values()) or 1.0)  # events that move bytes
    return int(events[1]) * share * bytes_each, float(total_ms[1]) * 1e6 / threads


_TOTAL = re.compile(r"^ +total time: +([\d.]+)s$", re.M)


def elapsed_ns(said: str) -> float:
    """From the first thread's begin to the last one's end; RemError if sysbench printed none."""
    found = _TOTAL.search(said)
    if found is None:
        raise RemError(f"sysbench printed no total time: {said.strip()[-300:]!r}")
    return float(found[1]) * 1e9


def _long_enough(ns: float, name: str, shortest_ns: int = SHORTEST_NS) -> float:
    """The time, if the last digit that sysbench prints is no more than two percent of it."""
    if ns < shortest_ns:
        raise RemError(f"{name}: {ns:.0f} ns are too short for what sysbench prints")
    return ns


def _warm_up(machine: Machine, point: Blocks | Files, rows: Mapping[str, Any]) -> None:
    """Run a point that has no sample yet: a machine's first runs are up to three times slower.

    Then all that disks and firmware have changed is on media, and not written while it is timed.
    """
    if point.name not in rows:
        machine.run_in_guest(point.words, limit_s=RUN_LIMIT_S)
        machine.run_in_guest(WRITE_BACK, limit_s=RUN_LIMIT_S)


def run_sysbench(machine: Machine, place: Place, points: Sequence[Any]) -> dict[str, list[float]]:
    """Bytes per nanosecond of each point, by name; a point may be there several times."""
    rows: dict[str, list[float]] = {}
    if any(isinstance(point, Files) for point in points):
        machine.run_in_guest(PREPARE_FILES, limit_s=RUN_LIMIT_S)
    for point in points:
        _warm_up(machine, point, rows)
        said = machine.run_in_guest(point.words, limit_s=RUN_LIMIT_S).stdout
        bytes_moved, ns = moved(said, point.bytes, point.threads)
        rows.setdefault(point.name, []).append(bytes_moved / _long_enough(ns, point.name))
    return rows


def run_counted(machine: Machine, place: Place, points: Sequence[Blocks]) -> dict[str, Any]:
    """Of each point, by name, what passes after the first take: bytes, time, what is counted.

    A run with one pass is subtracted: sysbench's start, and filling its blocks."""
    rows: dict[str, Any] = {}
    for point in points:
        _warm_up(machine, point, rows)
        one, whole = (_counted(machine, place, it) for it in (replace(point, passes=1), point))
        row = {name: whole[name] - one[name] for name in whole}
        _long_enough(row["ns"], point.name, SHORTEST_TOTAL_NS if point.until_last else SHORTEST_NS)
        rows.setdefault(point.name, []).append(row)
    return rows


def _counted(machine: Machine, place: Place, point: Blocks) -> dict[str, float]:
    before = counters(machine, place.cpus)
    said = machine.run_in_guest(point.words, limit_s=RUN_LIMIT_S).stdout
    after = counters(machine, place.cpus)
    bytes_moved, ns = moved(said, point.bytes, point.threads)
    ns = elapsed_ns(said) if point.until_last else ns
    return {"bytes": bytes_moved, "ns": ns, **{name: after[name] - before[name] for name in after}}


def run_make(machine: Machine, place: Place, projects: Sequence[Project]) -> dict[str, Any]:
    """Of each build: ns, busy_ns of all CPUs, what is counted, and what the program says."""
    rows: dict[str, Any] = {}
    for project in projects:
        machine.run_in_guest(project.prepare, limit_s=RUN_LIMIT_S)
        before = counters(machine, place.cpus)
        done = machine.run_in_guest(project.words, limit_s=RUN_LIMIT_S)
        after = counters(machine, place.cpus)
        times = re.findall(r"^([\d.]+) ([\d.]+) ([\d.]+)$", done.stderr, re.M)
        if not times or not done.stdout.strip():
            raise RemError(f"make printed no time: {done.stderr[-300:]!r}")
        elapsed, user, system = (round(float(one) * 1e9) for one in times[-1])
        row: dict[str, Any] = {name: after[name] - before[name] for name in after}
        row |= {"ns": elapsed, "busy_ns": user + system, "says": done.stdout.strip()}
        rows.setdefault(f"{project.jobs} jobs", []).append(row)
    return rows


Run = Callable[[Machine, Place, Any], Any]


def measured(it: Context, run: Run, jobs: Mapping[str, tuple[Place, Any]]) -> dict[str, Any]:
    """What *run* returns for each place and its work, by name.

    What was measured on the same code is not repeated, also by another experiment. Machines run one
    after another: each takes a core of the host.
    """
    built = need_all([Kernel(), Plugin()])
    keys = (built[Kernel()].key, built[Plugin()].parent.name)

    def file_of(place: Place, work: Any) -> str:
        text = json.dumps([run.__name__, asdict(place), repr(work)])
        return "-".join((*keys, hashlib.sha256(text.encode()).hexdigest()[:16])) + ".json"

    folder = it.out.parent / "xeon"
    files = {name: folder / file_of(*job) for name, job in jobs.items()}

    def measure(missing: list[str]) -> Iterator[tuple[str, Any]]:
        for number, name in enumerate(missing):
            place, work = jobs[name]
            with booted(place, f"xeon-{run.__name__.replace('_', '-')}-{number}") as machine:
                yield name, run(machine, place, work)

    return kept(files, measure, run)


def gib_per_s(bytes_per_ns: float) -> float:
    return bytes_per_ns * 1e9 / GIB


def interval_percent(samples: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of the mean of five, of the mean; 0 of fewer."""
    if len(samples) < REPEATS:
        return 0.0
    return T_OF_FIVE * stdev(samples) / math.sqrt(len(samples)) / mean(samples) * 100


def rates(rows: Mapping[str, Sequence[Any]], point: Blocks | Files) -> list[float]:
    """Of a point, GiB/s of each sample."""
    samples = rows[point.name]
    return [
        gib_per_s(one["bytes"] / one["ns"] if isinstance(one, dict) else one) for one in samples
    ]


def rate(rows: Mapping[str, Sequence[Any]], point: Blocks | Files) -> float:
    """The median of a point's samples, in GiB/s."""
    return median(rates(rows, point))

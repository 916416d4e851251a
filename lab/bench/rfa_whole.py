# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench rfa`, its third part: both recommendations together, beside a machine that has DRAM
only (The Age of Core Memory, section 4).

Method: programs that work in memory and wait for fsync, on three machines with the model of cores,
caches and memory, one CPU each, and the disk of rfa_fsync.py: one of DRAM, one of NVRAM, and one of
NVRAM with DRAM of PERCENT of the program's memory as its cache (memtype=mixed). On those of NVRAM
each program runs with fsync on the disk, and with fsync that ends in memory:

    dram     DRAM only, fsync on the disk: what a server does today
    nvram    NVRAM only
    rfa3     NVRAM, fsync ends in memory
    rfa4     NVRAM, DRAM as its cache
    both     both

A program runs twice in a row, first to warm up, and then as a region whose time and energy count.
Energy is that of memory and cores (cost.py), for each operation. The program's memory is what it
has on the machine of DRAM: its processes' own pages and its files.

    vs_dram = rate / rate of `dram`         energy_vs_dram = energy of an operation / that of `dram`
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lab.bench import rfa_fsync as fsync
from lab.bench.cost import cost_now
from lab.bench.rfa import AT_ONCE, cache_bytes, resident_of, sources
from lab.bench.rfa_fsync import FOLDER, MEMORY, OFF, SSD, Program, rate_of_rounds, rig, sh
from lab.errors import RemError
from lab.machine.machine import Machine
from lab.machine.memories import DRAM_CACHE, MEMORY_PROFILE, check_memory
from lab.progress import step
from lab.result import Result
from lab.setup.products import need_all
from lab.testbed.fsync_guest import SYSFS
from lab.testbed.mixed_guest import counts
from lab.testbed.region import WRITE_BACK, install_region, run_region
from lab.verdict import BrokenError

DRAM, NVRAM, RFA3, RFA4, BOTH = "dram", "nvram", "rfa3", "rfa4", "both"
PERCENT = 25
RUN_LIMIT_S = 3600.0  # only for hangs
REDIS_KEYS, REDIS_VALUE_BYTES = 8000, 900
CLIENT = "redis-benchmark -p 7777 -c 1 -t set"


@dataclass(frozen=True)
class Load:
    """A program, and where its memory is."""

    program: Program
    processes: str = ""  # prints their numbers, if there are any after its run
    files: str = ""
    waits: bool = True  # for fsync


def _rounds(units: str, count: str) -> str:
    """A shell loop of so long, which prints its rounds and its time."""
    return (
        f"a=$(date +%s%N); b=$a; n=0; while [ $((b - a)) -lt {{seconds}}000000000 ]; do {units} ||"
        f" exit 1; n=$((n + {count})); b=$(date +%s%N); done; echo $n $((b - a))"
    )


BATCH, PIPELINE = 4000, 16
LOADS = {
    load.program.name: load
    for load in (
        # Every batch of 16 requests is in its log and on the disk before it is answered; nine
        # requests of ten are for one key in sixteen.
        Load(
            Program(
                "redis",
                _rounds(
                    f"{CLIENT} -P {PIPELINE} -n {BATCH * 9 // 10} -r {REDIS_KEYS // 16}"
                    f" -d {REDIS_VALUE_BYTES} -q >/dev/null && {CLIENT} -P {PIPELINE}"
                    f" -n {BATCH // 10} -r {REDIS_KEYS} -d {REDIS_VALUE_BYTES} -q >/dev/null",
                    str(BATCH),
                ),
                rate_of_rounds,
                fresh=f"rm -rf {FOLDER}/redis; mkdir {FOLDER}/redis;"
                f" redis-server --port 7777 --save '' --daemonize yes --dir {FOLDER}/redis"
                " --appendonly yes --appendfsync no --auto-aof-rewrite-percentage 0 >/dev/null;"
                " until redis-cli -p 7777 ping >/dev/null 2>&1; do sleep 0.1; done;"
                f" {CLIENT} -P 64 -n {3 * REDIS_KEYS} -r {REDIS_KEYS} -d {REDIS_VALUE_BYTES} -q"
                " >/dev/null; redis-cli -p 7777 config set appendfsync always >/dev/null",
                end="redis-cli -p 7777 shutdown nosave; until ! pidof redis-server >/dev/null;"
                " do sleep 0.1; done",
            ),
            "$(pidof redis-server)",
            "redis",
        ),
        Load(fsync.PROGRAMS["postgres"], "$(pidof postgres)", "pg/base"),
        Load(fsync.PROGRAMS["sqlite_wal"], "", "sqlite_wal"),
        # A compiler: it waits for no fsync.
        Load(
            Program(
                "make",
                f"cd {FOLDER}/make && " + _rounds("gcc -O2 -c a.c b.c", "2"),
                rate_of_rounds,
                once=sources(f"{FOLDER}/make", "a b").replace("{", "{{").replace("}", "}}"),
            ),
            "",
            "make",
            waits=False,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    programs: tuple[str, ...] = tuple(LOADS)
    memory: str = "optane"
    profile: str = MEMORY_PROFILE
    seconds: int = 5  # of the guest, to warm up and to be measured


@dataclass(frozen=True)
class Run:
    """One program, one way."""

    rate: float  # operations a second of guest time
    pj_each: float  # of an operation
    in_memory: int  # fsyncs
    resident_bytes: int
    promoted: int = 0  # pages that have moved to DRAM


Found = dict[str, dict[str, Run]]  # by program and way


@dataclass
class _Guest:
    """A machine of the rig, with the program that marks a region."""

    machine: Machine
    seconds: int
    mixed: bool
    region: str = field(init=False)

    def __post_init__(self) -> None:
        self.region = install_region(self.machine)

    def _in_memory(self) -> int:
        return int(sh(self.machine, f"awk '$1 == \"in_memory\" {{print $2}}' {SYSFS}/counts"))

    def _cost(self) -> dict[str, int]:
        control = self.machine.plugin
        assert control is not None, "the machine is off"
        now = cost_now(self.machine, control)
        return {"ns": now.ns, "pj": now.pj}

    def run(self, load: Load, way: str) -> Run:
        """Warm up, then measure. *way*: where fsync ends."""
        program, machine = load.program, self.machine
        env = fsync.begin_way(machine, program, SSD, way)
        command = program.run.format(env=env, seconds=self.seconds)
        sh(
            machine,
            f"({command}) >/tmp/warm.log 2>&1 || {{ tail -n 3 /tmp/warm.log >&2; exit 1; }}",
        )
        sh(machine, WRITE_BACK)
        before = self._in_memory()
        done = run_region(machine, command, self._cost, RUN_LIMIT_S, self.region)
        if done.code != 0:
            raise BrokenError("no-result", f"{program.name}: {done.said[-300:]!r}")
        in_memory = self._in_memory() - before
        promoted = counts(machine)["promoted"] if self.mixed else 0
        rate = program.rate(done.said)
        resident_kib = self._resident_kib(load, done.peak_kib)
        sh(machine, program.end.format(env=""))
        fsync.check_armed(machine)
        if (in_memory > 0) != (way == MEMORY) and load.waits:
            raise RemError(f"{program.name}, {way}: {in_memory} fsyncs ended in memory")
        pj_each = done.counted["pj"] / done.counted["ns"] * 1e9 / rate
        return Run(rate, pj_each, in_memory, resident_kib << 10, promoted)

    def _resident_kib(self, load: Load, peak_kib: int) -> int:
        # Of files those of the folder.
        of_processes = resident_of(load.processes or "none", "Shmem")
        text = f"{of_processes}; du -sk {FOLDER}/{load.files} | cut -f1"
        of_processes_kib, of_files_kib = map(int, sh(self.machine, text).split())
        if load.processes and not of_processes_kib:
            raise RemError(f"{load.program.name}: its processes cannot be found")
        # Without processes that go on: the most that one of its children has had.
        return (of_processes_kib if load.processes else peak_kib) + of_files_kib


def _on(plan: Plan, memory: str, names: tuple[str, ...], size_bytes: int = 0) -> Found:
    """The programs on one machine: with fsync on the disk, and in memory where that is a way."""
    ways = (OFF,) if memory == DRAM_CACHE else (OFF, MEMORY)
    rig_plan = fsync.Plan(profile=plan.profile)
    with rig(rig_plan, memory, size_bytes) as machine:
        guest = _Guest(machine, plan.seconds, size_bytes > 0)
        found: Found = {}
        for name in names:
            load = LOADS[name]
            sh(machine, f"echo disk >{SYSFS}/state; {load.program.once.format(env='')}")
            with step(f"{name} on {'mixed' if size_bytes else memory}"):
                found[name] = {way: guest.run(load, way) for way in ways}
        return found


def measure(plan: Plan) -> Found:
    """Everything: by program, and by the ways at the top."""
    need_all(fsync.PARTS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        memories = (DRAM_CACHE, plan.memory)
        on_dram, on_nvram = pool.map(lambda memory: _on(plan, memory, plan.programs), memories)

        def mixed_of(name: str) -> dict[str, Run]:
            size_bytes = cache_bytes(on_dram[name][OFF].resident_bytes, PERCENT)
            return _on(plan, plan.memory, (name,), size_bytes)[name]

        found: Found = {}
        for name, mixed in zip(plan.programs, pool.map(mixed_of, plan.programs), strict=True):
            if not mixed[OFF].promoted:
                raise BrokenError("does-not-continue", f"{name}: no page has moved to DRAM")
            found[name] = {
                DRAM: on_dram[name][OFF],
                NVRAM: on_nvram[name][OFF],
                RFA3: on_nvram[name][MEMORY],
                RFA4: mixed[OFF],
                BOTH: mixed[MEMORY],
            }
    return found


def add_figures(result: Result, found: Found) -> None:
    """Rates, energies, and both over those of DRAM."""
    for name, runs in found.items():
        dram = runs[DRAM]
        result.add(f"{name}_whole_resident_bytes", dram.resident_bytes, "B", "counted")
        for way, run in runs.items():
            key = f"{name}_{way}"
            result.add(f"{key}_per_s", round(run.rate, 1), "1/s", "modelled")
            result.add(f"{key}_energy_pj", round(run.pj_each), "pJ", "modelled")
            if way != DRAM:
                result.add(f"{key}_vs_dram", round(run.rate / dram.rate, 3), "times", "modelled")
                energy = round(run.pj_each / dram.pj_each, 3)
                result.add(f"{key}_energy_vs_dram", energy, "times", "modelled")
    for way in (NVRAM, RFA3, RFA4, BOTH):
        beats = sum(runs[way].rate >= runs[DRAM].rate for runs in found.values())
        result.add(f"{way}_beats_dram", beats, "programs", "modelled")


def run(plan: Plan, result: Result, print_line: Callable[[str], None]) -> None:
    """Measure all and add it to *result*; a line for each program that DRAM alone runs faster.

    The paper hopes that both recommendations together beat DRAM: where they do not is said, and is
    no failure.
    """
    check_memory(plan.memory)
    found = measure(plan)
    add_figures(result, found)
    for name, runs in found.items():
        if (share := runs[BOTH].rate / runs[DRAM].rate) < 1:
            print_line(f"{name}: {share:.2f} of the rate on DRAM alone, with both recommendations")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench rfa`: how much of what NVRAM costs DRAM as its cache wins back (The Age of Core
Memory, section 4, recommendation 4). The part of recommendation 3 is in rfa_fsync.py.

Method: one program, its data in anonymous memory, on machines with the model of cores, caches and
memory (`rem run --memory`), one CPU each: main memory of DRAM's speed; NVRAM alone; and NVRAM with
DRAM of a part of the program's data as its cache (`memtype=mixed`), whose controller is modelled,
too. The program runs until its pages have found their places, and is then timed for as long again,
by the guest's clock, which follows the model. What the kernel does to find and move hot pages runs
on the same CPU and counts.

    loss_recovered = (time on NVRAM - time mixed) / (time on NVRAM - time on DRAM)

A Stop is armed all the time, and the kernel knows the supply's window: so many pages of DRAM may
differ from NVRAM as a Stop copies home within it. With a quarter the power then fails some times
while the program works: no Stop may take longer than its bound, nor the bound than the window.

DRAM is a part of the program's resident set, as measured on the machine of DRAM's speed. Where
NVRAM is Optane, a hardware cache stands beside: Memory Mode, whose DRAM is the least power of two
that is as much. It loses what it holds. Other rules of placement (kernel/mixed/policy.c) can stand
beside the kernel's own: the same for programs' own pages alone, Linux' tiering, Nomad's by lists
and by generations (MGLRU), and what DAMON finds hot. With one of the last two all machines have a
kernel that has DAMON and MGLRU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, product

from lab.bench import rfa_stops
from lab.bench.rfa_rest import Reads, reads_of
from lab.bench.rfa_stops import Stops
from lab.errors import RemError
from lab.machine.config import MachineConfig
from lab.machine.cut_points import QUANTUM_ICOUNT
from lab.machine.machine import Machine
from lab.machine.memories import DRAM_CACHE, MEMORY_PROFILE, check_memory
from lab.machine.plugin import STOPPED_OUT, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.progress import step
from lab.result import Result
from lab.setup.kernel import TIERING
from lab.setup.memory import MemoryModel
from lab.setup.power import Power
from lab.setup.products import Kernel, Plugin, Root, need, need_all
from lab.testbed.machines import make_config
from lab.testbed.mixed_guest import (
    CACHE_UNIT_BYTES,
    PAGE_BYTES,
    SYSFS,
    counts,
    mixed_config,
    state,
)
from lab.verdict import BrokenError

ROOT = Root.having("libeatmydata1", "postgresql")  # of all parts
PARTS = (Kernel(), Plugin(), ROOT, Power(), MemoryModel())
STOPS = 3  # of each program
BOOT_LIMIT_S = 900.0
RUN_LIMIT_S = 3600.0  # only for hangs
SCAN_MS = 100  # of modelled time: runs last seconds
PARTS_PERCENT = (1, 5, 10, 25)
JUDGED, JUDGED_PERCENT = ("redis", "make"), 25
OPTANE = "optane"
OWN_RULE = "heat"
# Of kernel/mixed/policy.c: shell words that choose each. Nomad's asks the kernel's lists of active
# pages, or its generations.
RULES = {
    rule: f"echo {rule} >{SYSFS}/policy" for rule in (OWN_RULE, "data", "numa", "nomad", "damon")
}
RULES["generations"] = f"echo y >/sys/kernel/mm/lru_gen/enabled; {RULES['nomad']}"
TIERING_RULES = frozenset({"damon", "generations"})  # of a kernel that has what they go by
RECOVERED_AIM = 0.80  # at 25 %, the least of the programs
AT_ONCE = 2  # machines; a host's load does not change what they measure
NUMBERS = count()  # of machines, in their names


@dataclass(frozen=True)
class Program:
    """One program: *start* brings its data to memory, *unit* uses it. All are for the shell."""

    name: str
    start: str
    unit: str
    units: int  # timed, and as many before
    resident: str  # prints the resident set, in KiB


REDIS_KEYS = 30_000
REDIS_PIPELINE = 64
# Whole pipelines: else the client counts more than were wanted, and if its timer looks just then it
# takes its end for that of the server. Three sets for each key, at random, reach nearly all.
REDIS_SETS = -(-3 * REDIS_KEYS // REDIS_PIPELINE) * REDIS_PIPELINE
REDIS_HOT_GETS, REDIS_GETS = 54 * REDIS_PIPELINE, 6 * REDIS_PIPELINE
REDIS_CLIENT = f"redis-benchmark -p 7777 -P {REDIS_PIPELINE} -c 1 -q"
# Of the largest process of one unit.
PEAK = (
    'python3 -c \'import os, resource, subprocess; subprocess.run(os.environ["unit"], shell=True,'
    " check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)'"
)
REDIS_VALUE_BYTES = 900


def sources(folder: str, names: str) -> str:
    """Shell words that make a folder with C files of these names."""
    return (
        f"mkdir -p {folder} && cd {folder} && for i in {names}; do"
        " { echo '#include <stdio.h>'; for f in $(seq 12); do"
        ' echo "int f${i}_$f(int a) { char b[9]; sprintf(b, \\"%d\\", a);'
        ' return b[a % 3] * $f; }"; done; } >$i.c; done'
    )


def resident_of(processes: str, shared: str) -> str:
    """Shell words that print what processes have in memory, in KiB.

    Their own pages, and of each kind that they share (*shared*) those of the one with most; 0 if
    there is no such process.
    """
    return (
        f"cat $(for p in {processes}; do echo /proc/$p/status; done) 2>/dev/null | awk"
        f" '/^RssAnon:/ {{own += $2}} /^Rss({shared}):/ {{if ($2 > most[$1]) most[$1] = $2}}"
        " END {for (kind in most) own += most[kind]; print own + 0}'"
    )


PROGRAMS = {
    # Nine requests of ten are for one key in sixteen (a hotspot, as YCSB has it).
    "redis": Program(
        "redis",
        "redis-server --port 7777 --save '' --daemonize yes >/dev/null; "
        "until redis-cli -p 7777 ping >/dev/null 2>&1; do sleep 0.1; done; "
        f"{REDIS_CLIENT} -n {REDIS_SETS} -t set -r {REDIS_KEYS} -d {REDIS_VALUE_BYTES} >/dev/null",
        f"{REDIS_CLIENT} -n {REDIS_HOT_GETS} -t get -r {REDIS_KEYS // 16} >/dev/null;"
        f" {REDIS_CLIENT} -n {REDIS_GETS} -t get -r {REDIS_KEYS} >/dev/null",
        10,
        "awk '/VmHWM/ {print $2}' /proc/$(pidof redis-server)/status",
    ),
    # A compiler: each of its processes lives for some tenths of a second.
    "make": Program(
        "make",
        sources("/tmp/make", "1 2 3 4"),
        "cd /tmp/make && gcc -O2 -c 1.c 2.c 3.c 4.c",
        3,
        PEAK,
    ),
    # All of its block is as hot as any other part: DRAM can have no more than its share.
    "sysbench": Program(
        "sysbench",
        ":",
        "sysbench memory --threads=1 --time=0 --memory-block-size=16M --memory-total-size=256M"
        " --memory-access-mode=rnd --memory-oper=read run >/dev/null",
        1,
        PEAK,
    ),
    # Its buffers are shared memory, which stays in NVRAM; the rest is its processes' own.
    "postgres": Program(
        "postgres",
        "service postgresql start >/dev/null 2>&1; cd / && runuser -u postgres -- psql -q -c"
        " 'create table a(n int primary key, t char(84)); insert into a"
        " select n, 0 from generate_series(1, 40000) n'"
        "; echo '\\set n random(1, 40000)' >/tmp/one.sql;"
        " echo 'select t from a where n = :n;' >>/tmp/one.sql; chmod a+r /tmp/one.sql",
        "cd / && runuser -u postgres -- $(ls -d /usr/lib/postgresql/*/bin)/pgbench -n"
        " -f /tmp/one.sql -c 1 -t 1000 postgres >/dev/null",
        2,
        resident_of("$(pidof postgres)", "Shmem|File"),
    ),
}


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    programs: tuple[str, ...] = tuple(PROGRAMS)
    memory: str = "optane"
    profile: str = MEMORY_PROFILE
    percents: tuple[int, ...] = PARTS_PERCENT
    rules: tuple[str, ...] = (OWN_RULE,)
    rest: bool = False  # whose reads still go to NVRAM, too

    @property
    def kernel(self) -> Kernel:
        """What its rules need."""
        return Kernel(TIERING if TIERING_RULES & set(self.rules) else None)


@dataclass(frozen=True)
class Run:
    """One program on one machine."""

    time_ns: int
    resident_bytes: int
    moved: dict[str, int]  # what kernel/mixed has counted in the timed part
    rest: Reads | None = None
    stops: Stops | None = None


@dataclass(frozen=True)
class Job:
    """A machine for one program: *percent* of what it has in memory is DRAM, under a rule."""

    program: str
    memory: str
    percent: int = 0
    rule: str = OWN_RULE


Runs = dict[Job, Run]


@contextmanager
def booted(
    config: MachineConfig, profile: str, memory: str, dram_bytes: int = 0
) -> Iterator[Machine]:
    """A guest of ROOT that answers, whose clock follows the models; destroyed at the end.

    With *dram_bytes* its memory is NVRAM, and so much DRAM caches it (memtype=mixed).
    """
    built = need_all(PARTS)
    spec = PluginSpec(built[Plugin()], cut=True, outs=(STOPPED_OUT,), quantum=QUANTUM_ICOUNT)
    config = replace(
        config,
        root=built[ROOT],
        icount=True,
        caches=profile,
        memory=memory,
        plugin=spec.argument(ctl_path(config.name)),
    )
    if dram_bytes:
        words = f"{config.cmdline_extra} remanence.dram_max_kib={dram_bytes // 1024}"
        units_bytes = -(-dram_bytes // CACHE_UNIT_BYTES) * CACHE_UNIT_BYTES
        config = mixed_config(config, units_bytes, words, SCAN_MS)
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach(machine, spec)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


def _timed(machine: Machine, program: Program) -> int:
    """Nanoseconds of the guest's clock for the program's units."""
    text = (
        f"a=$(date +%s%N); n=0; while [ $n -lt {program.units} ]; do {program.unit} || exit 1;"
        " n=$((n+1)); done; b=$(date +%s%N); echo $((b-a))"
    )
    done = machine.guest.run(text, limit_s=RUN_LIMIT_S)
    return int(done.stdout.split()[-1])


def _resident_bytes(machine: Machine, program: Program) -> int:
    unit = program.unit.replace("'", "'\\''")
    text = f"export unit='{unit}'; {program.resident}"
    return int(machine.guest.run(text, limit_s=RUN_LIMIT_S).stdout.split()[-1]) * 1024


def _measure(
    plan: Plan,
    program: Program,
    memory: str,
    percent: int = 0,
    resident_bytes: int = 0,
    rule: str = OWN_RULE,
) -> Run:
    """*percent* of *resident_bytes* is DRAM as a cache. They are measured on that of DRAM."""
    name = f"{program.name}-{percent or memory}"
    if rule != OWN_RULE:
        name += f"-{rule}"
    size_bytes = cache_bytes(resident_bytes, percent)
    kernel = need(plan.kernel).bz_image
    config = make_config(f"bench-rfa-{next(NUMBERS)}-{os.getpid()}", cpus=1, kernel=kernel)
    if percent:
        config = rfa_stops.supplied(config, memory, plan.profile)
    with step(name), booted(config, plan.profile, memory, size_bytes) as machine:
        if percent and state(machine) != "on":
            raise RemError(f"DRAM is not used: {state(machine)}")
        if percent:
            machine.guest.run(RULES[rule], limit_s=RUN_LIMIT_S)
        machine.guest.run(program.start, limit_s=RUN_LIMIT_S)
        _timed(machine, program)
        before = counts(machine)
        time_ns = _timed(machine, program)
        after = counts(machine)
        if percent and not after["promoted"] + after["began"]:
            raise BrokenError("does-not-continue", f"{name}: no page has moved to DRAM")
        kept = ("frames", "used", "level", "reserve", "text_used")
        moved = {key: after[key] - (0 if key in kept else before[key]) for key in after}
        if memory == DRAM_CACHE:
            resident_bytes = _resident_bytes(machine, program)
        if percent and plan.rest:
            return Run(time_ns, resident_bytes, moved, _rest(machine, program))
        stops = None
        if percent == JUDGED_PERCENT and rule == OWN_RULE:
            stops = rfa_stops.measure(machine, program.unit, STOPS)
        return Run(time_ns, resident_bytes, moved, stops=stops)


def _rest(machine: Machine, program: Program) -> Reads:
    """While the program works for ever: the machine is not used for anything else."""
    rfa_stops.begin_load(machine, program.unit)
    return reads_of(machine)


def cache_bytes(resident_bytes: int, percent: int) -> int:
    """How much DRAM is the cache, in whole pages; none for 0 %."""
    pages = round(resident_bytes * percent / 100 / PAGE_BYTES)
    return max(pages, 1) * PAGE_BYTES if percent else 0


def mode_bytes(size_bytes: int) -> int:
    """The size of Memory Mode's DRAM: a power of two that is not less."""
    return 1 << (size_bytes - 1).bit_length()


def recovered(nvram_ns: int, dram_ns: int, mixed_ns: int) -> float:
    """The share of the gap that is won back; nothing if there is no gap."""
    gap_ns = nvram_ns - dram_ns
    return (nvram_ns - mixed_ns) / gap_ns if gap_ns > 0 else 0.0


def _plain(plan: Plan) -> list[Job]:
    """Each program on DRAM, and on NVRAM."""
    return [Job(name, memory) for name in plan.programs for memory in (DRAM_CACHE, plan.memory)]


def _mode(plan: Plan, percent: int, resident_bytes: int) -> str:
    """Memory Mode with as much DRAM, as --memory of run."""
    settings = plan.memory.removeprefix(OPTANE)
    return f"nmem{settings}:cache_bytes={mode_bytes(cache_bytes(resident_bytes, percent))}"


def _has_mode(plan: Plan) -> bool:
    return plan.memory.partition(":")[0] == OPTANE


def _cached(plan: Plan, plain: Runs) -> list[Job]:
    """Each program with DRAM as a cache: of each size, under each rule, and by Memory Mode."""
    jobs = []
    for name, percent in product(plan.programs, plan.percents):
        jobs += [Job(name, plan.memory, percent, rule) for rule in plan.rules]
        if _has_mode(plan):
            resident_bytes = plain[Job(name, DRAM_CACHE)].resident_bytes
            jobs.append(Job(name, _mode(plan, percent, resident_bytes)))
    return list(dict.fromkeys(jobs))


def _run(plan: Plan, jobs: Iterable[Job], resident: dict[str, int] | None = None) -> Runs:
    """*resident*: bytes of each program, where it is known."""
    known = resident or {}

    def one(job: Job) -> tuple[Job, Run]:
        program, so_far = PROGRAMS[job.program], known.get(job.program, 0)
        return job, _measure(plan, program, job.memory, job.percent, so_far, job.rule)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(pool.map(one, jobs))


def _add_mixed(
    plan: Plan, program: str, runs: Runs, percent: int, rule: str, result: Result
) -> float:
    """DRAM of *percent* under a rule. Return what it recovers."""
    mixed = runs[Job(program, plan.memory, percent, rule)]
    share = _recovered(plan, program, runs, mixed)
    key = f"{program}_{percent}" + ("" if rule == OWN_RULE else f"_{rule}")
    result.add(f"{key}_ns", mixed.time_ns, "ns", kind="modelled")
    result.add(f"{key}_recovered", round(share, 3), "", kind="modelled")
    for name in ("frames", "used", "promoted", "began", "demoted", "written", "over", "text_used"):
        result.add(f"{key}_{name}", mixed.moved[name], "pages", kind="counted")
    for kind, part in mixed.rest.shares().items() if mixed.rest else ():
        result.add(f"{key}_rest_{kind.replace(' ', '_')}", round(part, 4), "", kind="counted")
    return share


def _recovered(plan: Plan, program: str, runs: Runs, mixed: Run) -> float:
    dram, nvram = runs[Job(program, DRAM_CACHE)], runs[Job(program, plan.memory)]
    return recovered(nvram.time_ns, dram.time_ns, mixed.time_ns)


def _add_mode(plan: Plan, program: str, runs: Runs, result: Result) -> None:
    """Memory Mode of the same sizes."""
    resident_bytes = runs[Job(program, DRAM_CACHE)].resident_bytes
    for percent in plan.percents:
        done = runs[Job(program, _mode(plan, percent, resident_bytes))]
        share = _recovered(plan, program, runs, done)
        key = f"{program}_{percent}_mode"
        size_bytes = mode_bytes(cache_bytes(resident_bytes, percent))
        result.add(f"{key}_bytes", size_bytes, "B", kind="counted")
        result.add(f"{key}_recovered", round(share, 3), "", kind="modelled")


def run(plan: Plan, result: Result, print_line: Callable[[str], None]) -> None:
    """Measure all. The result is not ok if at 25 % one of JUDGED recovers less than RECOVERED_AIM,
    or a Stop is longer than it may be."""
    check_memory(plan.memory)
    need_all((*PARTS, plan.kernel))
    runs = _run(plan, _plain(plan))
    resident = {name: runs[Job(name, DRAM_CACHE)].resident_bytes for name in plan.programs}
    runs |= _run(plan, _cached(plan, runs), resident)
    least: dict[int, float] = {}
    for name in plan.programs:
        dram, nvram = runs[Job(name, DRAM_CACHE)], runs[Job(name, plan.memory)]
        result.add(f"{name}_resident_bytes", dram.resident_bytes, "B", kind="counted")
        result.add(f"{name}_dram_ns", dram.time_ns, "ns", kind="modelled")
        result.add(f"{name}_nvram_ns", nvram.time_ns, "ns", kind="modelled")
        slower = nvram.time_ns / dram.time_ns
        result.add(f"{name}_nvram_vs_dram", round(slower, 3), "times", kind="modelled")
        for percent, rule in product(plan.percents, plan.rules):
            share = _add_mixed(plan, name, runs, percent, rule, result)
            if name in JUDGED and rule == OWN_RULE:
                least[percent] = min(share, least.get(percent, share))
        if _has_mode(plan):
            _add_mode(plan, name, runs, result)
    for percent, share in least.items():
        result.add(f"loss_recovered_{percent}", round(share, 3), "", kind="modelled")
    if least.get(JUDGED_PERCENT, 1.0) < RECOVERED_AIM:
        result.miss(f"loss_recovered_{JUDGED_PERCENT}")
    if stops := [one.stops for one in runs.values() if one.stops]:
        for line in rfa_stops.judge(result, stops, "mixed_"):
            print_line(line)

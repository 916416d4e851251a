# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench rfa`: how much of what NVRAM costs DRAM as its cache wins back (The Age of Core
Memory, section 4, recommendation 4).

Method: one program, its data in anonymous memory, on machines with the model of cores, caches and
memory (`rem run --memory`), one CPU each: main memory of DRAM's speed; NVRAM alone; and NVRAM with
DRAM of a part of the program's data as its cache (`memtype=mixed`), whose controller is modelled,
too. The program runs until its pages have found their places, and is then timed for as long again,
by the guest's clock, which follows the model. What the kernel does to find and move hot pages runs
on the same CPU and counts.

    loss_recovered = (time on NVRAM - time mixed) / (time on NVRAM - time on DRAM)

DRAM is a part of the program's resident set, as measured on the machine of DRAM's speed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lab.errors import RemError
from lab.machine.cut_points import QUANTUM_ICOUNT
from lab.machine.machine import Machine
from lab.machine.memories import DRAM_CACHE, MEMORY_PROFILE, check_memory
from lab.machine.plugin import STOPPED_OUT, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.progress import step
from lab.result import Result
from lab.setup.products import Kernel, Plugin, Root, need_all
from lab.testbed.machines import make_config
from lab.testbed.mixed_guest import CACHE_UNIT_BYTES, NOT_CACHE_BYTES, counts, state
from lab.verdict import BrokenError

PARTS = (Kernel(), Plugin(), Root())
BOOT_LIMIT_S = 900.0
RUN_LIMIT_S = 3600.0  # only for hangs
SCAN_MS = 100  # of modelled time: runs last seconds
PARTS_PERCENT = (5, 10, 25)
RECOVERED_AIM = 0.80  # at 25 %, the least of the programs


@dataclass(frozen=True)
class Program:
    """One program: *start* brings its data to memory, *unit* uses it. All are for the shell."""

    name: str
    start: str
    unit: str
    units: int  # timed, and as many before
    resident: str  # prints the resident set, in KiB


REDIS_KEYS = 30_000
# Of the largest process of one unit.
PEAK = (
    'python3 -c \'import os, resource, subprocess; subprocess.run(os.environ["unit"], shell=True,'
    " check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)'"
)
REDIS_VALUE_BYTES = 900
PROGRAMS = {
    # Nine requests of ten are for one key in sixteen (a hotspot, as YCSB has it).
    "redis": Program(
        "redis",
        "redis-server --port 7777 --save '' --daemonize yes >/dev/null; "
        "until redis-cli -p 7777 ping >/dev/null 2>&1; do sleep 0.1; done; "
        f"redis-benchmark -p 7777 -n {3 * REDIS_KEYS} -P 64 -c 1 -t set -r {REDIS_KEYS}"
        f" -d {REDIS_VALUE_BYTES} -q >/dev/null",
        f"redis-benchmark -p 7777 -n 3600 -P 64 -c 1 -t get -r {REDIS_KEYS // 16} -q >/dev/null;"
        f" redis-benchmark -p 7777 -n 400 -P 64 -c 1 -t get -r {REDIS_KEYS} -q >/dev/null",
        10,
        "awk '/VmHWM/ {print $2}' /proc/$(pidof redis-server)/status",
    ),
    # A compiler: each of its processes lives for some tenths of a second.
    "make": Program(
        "make",
        "mkdir -p /tmp/make && cd /tmp/make && for i in 1 2 3 4; do { echo '#include <stdio.h>';"
        ' for f in $(seq 12); do echo "int f${i}_$f(int a) { char b[9]; sprintf(b, \\"%d\\", a);'
        ' return b[a % 3] * $f; }"; done; } >$i.c; done',
        "cd /tmp/make && gcc -O2 -c 1.c 2.c 3.c 4.c",
        3,
        PEAK,
    ),
}


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    programs: tuple[str, ...] = ("redis", "make")
    memory: str = "optane"
    profile: str = MEMORY_PROFILE
    percents: tuple[int, ...] = PARTS_PERCENT


@dataclass(frozen=True)
class Run:
    """One program on one machine."""

    time_ns: int
    resident_bytes: int
    moved: dict[str, int]  # what kernel/mixed has counted in the timed part


@contextmanager
def _machine(plan: Plan, name: str, memory: str, dram_bytes: int) -> Iterator[Machine]:
    built = need_all(PARTS)
    spec = PluginSpec(built[Plugin()], cut=True, outs=(STOPPED_OUT,), quantum=QUANTUM_ICOUNT)
    config = make_config(f"bench-rfa-{name}-{os.getpid()}", cpus=1)
    config = replace(
        config,
        icount=True,
        caches=plan.profile,
        memory=memory,
        plugin=spec.argument(ctl_path(config.name)),
    )
    if dram_bytes:
        config = replace(
            config,
            memtype="mixed",
            dram_bytes=NOT_CACHE_BYTES + dram_bytes,
            cmdline_extra=f"remanence.dram_scan_ms={SCAN_MS}",
        )
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
    plan: Plan, program: Program, memory: str, percent: int = 0, resident_bytes: int = 0
) -> Run:
    """*percent* of *resident_bytes* is DRAM as a cache. Measured here if it is not known yet."""
    name = f"{program.name}-{percent or memory}"
    size_bytes = cache_bytes(resident_bytes, percent)
    with step(name), _machine(plan, name, memory, size_bytes) as machine:
        if percent and state(machine) != "on":
            raise RemError(f"DRAM is not used: {state(machine)}")
        machine.guest.run(program.start, limit_s=RUN_LIMIT_S)
        _timed(machine, program)
        before = counts(machine)
        time_ns = _timed(machine, program)
        after = counts(machine)
        if percent and not after["promoted"]:
            raise BrokenError("does-not-continue", f"{name}: no page has moved to DRAM")
        kept = ("frames", "used", "level")
        moved = {key: after[key] - (0 if key in kept else before[key]) for key in after}
        return Run(time_ns, resident_bytes or _resident_bytes(machine, program), moved)


def cache_bytes(resident_bytes: int, percent: int) -> int:
    """How much DRAM is the cache, in whole units; none for 0 %."""
    units = round(resident_bytes * percent / 100 / CACHE_UNIT_BYTES)
    return max(units, 1) * CACHE_UNIT_BYTES if percent else 0


def recovered(nvram_ns: int, dram_ns: int, mixed_ns: int) -> float:
    """The share of the gap that is won back; nothing if there is no gap."""
    gap_ns = nvram_ns - dram_ns
    return (nvram_ns - mixed_ns) / gap_ns if gap_ns > 0 else 0.0


def run(plan: Plan) -> Result:
    """Measure all. The result is ok if at 25 % no program recovers less than RECOVERED_AIM."""
    check_memory(plan.memory)
    result = Result("rfa")
    least: dict[int, float] = {}
    for name in plan.programs:
        program = PROGRAMS[name]
        dram = _measure(plan, program, DRAM_CACHE)
        nvram = _measure(plan, program, plan.memory, 0, dram.resident_bytes)
        result.add(f"{name}_resident_bytes", dram.resident_bytes, "B", kind="counted")
        result.add(f"{name}_dram_ns", dram.time_ns, "ns", kind="modelled")
        result.add(f"{name}_nvram_ns", nvram.time_ns, "ns", kind="modelled")
        slower = nvram.time_ns / dram.time_ns
        result.add(f"{name}_nvram_vs_dram", round(slower, 3), "times", kind="modelled")
        for percent in plan.percents:
            mixed = _measure(plan, program, plan.memory, percent, dram.resident_bytes)
            share = recovered(nvram.time_ns, dram.time_ns, mixed.time_ns)
            result.add(f"{name}_{percent}_ns", mixed.time_ns, "ns", kind="modelled")
            result.add(f"{name}_{percent}_recovered", round(share, 3), "", kind="modelled")
            for key in ("frames", "used", "promoted", "demoted", "written"):
                result.add(f"{name}_{percent}_{key}", mixed.moved[key], "pages", kind="counted")
            least[percent] = min(share, least.get(percent, share))
    for percent, share in least.items():
        result.add(f"loss_recovered_{percent}", round(share, 3), "", kind="modelled")
    result.ok = all(share >= RECOVERED_AIM for percent, share in least.items() if percent == 25)
    return result

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench rfa`, its second part: what an fsync that ends in memory gains (The Age of Core
Memory, section 4, recommendation 3).

Method: programs that wait for fsync, on ext4 on a disk whose answers take the time of a sourced SSD
by the guest's clock (kernel/test/rem_disk.c, models/parts/memory/ssd.toml), on machines with the
model of cores, caches and memory, one CPU each. The disk has a log, whose flushes end in memory
where fsync does (kernel/stop/disk_log_redo.c). Each program runs four ways on the same machine,
one after the other, first to warm up and then for as long again:

    off        each fsync is the file system's own and waits for the disk
    memory     it ends in memory (kernel/persist)
    caches     the same by the cheaper policy: not judged, as a reset loses what is in caches
    eatmydata  it does nothing (libeatmydata): what no way to be durable can exceed

The kernel has `remanence.persist=` all the time; `off` is the state that an administrator chooses
by writing `disk`. A Stop is armed, the supply is charged, and write-back runs: what is WRITE_BACK_S
old goes to the disk, in the background and on the same CPU, in each way. What the kernel and the
disk have counted must agree with the way, or there is no result.

    gain = rate in memory / rate off        vs_eatmydata = rate in memory / rate with eatmydata

With the journal `fast-commit` the file system has what mkfs.ext4 leaves out by default: an fsync of
a new file logs what has changed of its inode, and no whole blocks. So it is in all ways then.

`fsync_gain_plp` is the same on an SSD whose capacitors keep its cache: a flush is nothing to it.
Afterwards the power fails some times while mail is delivered, which gives the longest Stop. The
kernel knows the supply's window and how long the write-back may take on this memory
(lab/bench/write_back.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lab import format as fmt
from lab.bench import rfa_stops
from lab.bench.rfa import AT_ONCE, NUMBERS, ROOT, booted
from lab.bench.rfa_stops import Stops
from lab.errors import RemError
from lab.machine.machine import Machine
from lab.machine.memories import MEMORY_PROFILE, check_memory
from lab.parts import part_number
from lab.paths import repo_dir
from lab.progress import step
from lab.result import Result
from lab.setup.memory import MemoryModel
from lab.setup.power import Power
from lab.setup.products import Kernel, Plugin, need_all
from lab.setup.slow_disk import SlowDisk
from lab.testbed.fsync_guest import DRAIN_S, SYSFS, state
from lab.testbed.machines import make_config

PARTS = (Kernel(), Plugin(), ROOT, SlowDisk(), Power(), MemoryModel())
RUN_LIMIT_S = 3600.0  # only for hangs
CPUS = 1
REGISTRY_MIB = 64  # as the how-to guide has it
REDO_MIB, LOG_MIB = 24, 16  # of it, for the disk's log
DEVICE = "/dev/dm-0"
DISK_MIB = 256
WRITE_BACK_S = 1  # of a run's guest time; Linux's own is 5 to 30 s; the registry has none
FOLDER = "/srv/rfa"
PLP, SSD = "ssd-plp", "ssd"
DISK_NUMBERS = ("read_ns", "write_ns", "flush_ns", "fua_ns", "bytes_per_us")
# What mkfs.ext4 is given besides, in each way.
JOURNALS = {"default": "", "fast-commit": "-O fast_commit"}
OFF, MEMORY, CACHES, EATMYDATA = "off", "memory", "caches", "eatmydata"
IN_MEMORY = (MEMORY, CACHES)  # each named as the kernel's state
WAYS = {SSD: (OFF, MEMORY, CACHES, EATMYDATA), PLP: (OFF, MEMORY)}
PRELOAD = "LD_PRELOAD=libeatmydata.so"
# Of the disk's flushes with fsync, what may be left without: write-back has some.
FLUSHES_LEFT_MAX = 0.2
GAIN_AIM = 5.0
VS_EATMYDATA_AIM = 0.9
OFF_COST_LOOPS = ("syscall", "fault", "file_fault")

CUT_LINE = "=====\n"
# In one command: while the host sends the next one, a guest that has nothing to do skips from timer
# to timer, and after some of its seconds the kernel lets idle files go.
SCRIPT = f"""counts() {{{{
    cat {SYSFS}/counts
    cd /sys/module/rem_disk/parameters && grep -H . flushes fuas | tr : " "
}}}}
({{command}}) >/tmp/warm.log 2>&1 || {{{{ tail -n 3 /tmp/warm.log >&2; exit 1; }}}}
(counts) && echo ===== && ({{command}}) && echo ===== && (counts)"""

FILES = "--file-total-size=32M --file-test-mode=rndwr"
MAILS = 200
PG_CONFIG = "$(ls -d /etc/postgresql/*/main)"
PG_CTL = (
    "cd / && runuser -u postgres -- env {env} $(ls -d /usr/lib/postgresql/*/bin)/pg_ctl -s -w"
    f" -D {PG_CONFIG} -l /tmp/pg.log"
    f" -o '-c data_directory={FOLDER}/pg -c shared_buffers=32MB'"
)
BANK = (
    "create table accounts(aid int primary key, abalance int, filler char(84));"
    "create table history(aid int, delta int, mtime timestamp);"
    "insert into accounts select n, 0, null from generate_series(1, 2000) n"
)
PGBENCH = "cd / && runuser -u postgres -- env {env} $(ls -d /usr/lib/postgresql/*/bin)/pgbench"


@dataclass(frozen=True)
class Program:
    """All are commands for the shell of the guest; {env} and {seconds} are filled in."""

    name: str
    run: str
    rate: Callable[[str], float]  # operations a second, from what it prints
    once: str = ":"  # before all ways
    fresh: str = ":"  # before each way
    end: str = ":"  # after each way


def rate_of_rounds(said: str) -> float:
    """From a last line with rounds and nanoseconds."""
    words = said.split()
    if len(words) < 2 or not all(word.isdecimal() for word in words[-2:]) or words[-1] == "0":
        raise RemError(f"the program printed no result: {said.strip()[-200:]!r}")
    return int(words[-2]) * 1e9 / int(words[-1])


def _found(pattern: str) -> Callable[[str], float]:
    def rate(said: str) -> float:
        found = re.search(pattern, said)
        if found is None:
            raise RemError(f"the program printed no result: {said.strip()[-200:]!r}")
        return float(found[1])

    return rate


def _sql(mode: str) -> Program:
    name = f"sqlite_{mode}"
    return Program(
        name,
        f"env {{env}} python3 /root/sql_load.py {FOLDER}/{name} {mode} {{seconds}}",
        rate_of_rounds,
        fresh=f"rm -f {FOLDER}/{name}*",
    )


PROGRAMS = {
    program.name: program
    for program in (
        # Its defaults but the size: 128 files, blocks of 16 KiB, after each 100 an fsync of all.
        Program(
            "fileio",
            f"cd {FOLDER}/files && env {{env}} sysbench fileio {FILES} --time={{seconds}} run",
            _found(r"writes/s: +([\d.]+)"),
            once=f"mkdir {FOLDER}/files && cd {FOLDER}/files && sysbench fileio {FILES} prepare",
        ),
        _sql("wal"),
        _sql("delete"),
        Program(
            "postgres",
            f"{PGBENCH} -n -f /tmp/bank_load.sql -c 1 -T {{seconds}} postgres",
            _found(r"tps = ([\d.]+)"),
            once=f"service postgresql stop; mkdir -p /var/run/postgresql &&"
            f" chown postgres /var/run/postgresql &&"
            f" cp -a /var/lib/postgresql/*/main {FOLDER}/pg && {PG_CTL.format(env='')} start &&"
            " cp /root/bank_load.sql /tmp &&"
            f" runuser -u postgres -- psql -q -c '{BANK}' postgres && {PG_CTL.format(env='')} stop",
            fresh=f"{PG_CTL} start",
            end=f"{PG_CTL} stop",
        ),
        Program(
            "mail",
            f"env {{env}} /root/mail_load {FOLDER}/mail {MAILS} {{seconds}}",
            rate_of_rounds,
            fresh=f"rm -rf {FOLDER}/mail",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    programs: tuple[str, ...] = tuple(PROGRAMS)
    memories: tuple[str, ...] = ("dram", "optane", "ocpmem")
    profile: str = MEMORY_PROFILE
    seconds: int = 5  # of the guest, to warm up and to be measured
    stops: int = 10
    journal: str = "default"  # of JOURNALS


SIZES = {"ci": {"seconds": 1, "stops": 3}, "full": {}}


@dataclass(frozen=True)
class Run:
    """One program, one way, on one disk."""

    rate: float  # operations a second of guest time
    in_memory: int  # fsyncs
    by_disk: int  # fsyncs of files that the kernel watches
    drains: int
    flushes: int  # of the disk, FUA writes among them

    @property
    def flushes_per_operation(self) -> float:
        return self.flushes / self.rate


Runs = dict[tuple[str, str, str], Run]  # by program, disk and way


def sh(machine: Machine, command: str) -> str:
    return machine.guest.run(command, limit_s=RUN_LIMIT_S).stdout


def disk_words(disk: str) -> dict[str, int]:
    """Parameters of the module."""
    return {name: round(part_number(disk, name)) for name in DISK_NUMBERS}


@contextmanager
def rig(plan: Plan, memory: str, cache_bytes: int = 0) -> Iterator[Machine]:
    """A machine with the disk mounted, and the programs installed.

    With *cache_bytes* its memory is NVRAM, and so much DRAM caches it (memtype=mixed).
    """
    built = need_all(list(PARTS))
    kind = "mixed" if cache_bytes else memory.partition(":")[0]
    config = make_config(f"bench-fsync-{kind}-{next(NUMBERS)}-{os.getpid()}", CPUS, "fast")
    words = f"remanence.persist={REGISTRY_MIB}M remanence.persist_redo={REDO_MIB}M"
    config = rfa_stops.supplied(replace(config, cmdline_extra=words), memory, plan.profile)
    with booted(config, plan.profile, memory, cache_bytes) as machine:
        machine.guest.put(built[SlowDisk()], "/root/rem_disk.ko")
        for name in ("mail_load.c", "sql_load.py", "bank_load.sql", "dm_table.py"):
            machine.guest.put(repo_dir() / "lab" / "testbed" / name, f"/root/{name}")
        numbers = " ".join(f"{name}={value}" for name, value in disk_words(SSD).items())
        sh(
            machine,
            "gcc -O2 -o /root/mail_load /root/mail_load.c &&"
            f" insmod /root/rem_disk.ko mib={DISK_MIB} {numbers} &&"
            " python3 /root/dm_table.py create rfa"
            f' "0 $(blockdev --getsz /dev/rem_disk) remanence-log /dev/rem_disk {LOG_MIB}" &&'
            f" mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0"
            f" {JOURNALS[plan.journal]} {DEVICE} &&"
            f" mkdir -p {FOLDER} && mount {DEVICE} {FOLDER} &&"
            f" echo {WRITE_BACK_S * 100} >/proc/sys/vm/dirty_expire_centisecs &&"
            f" echo {WRITE_BACK_S * 50} >/proc/sys/vm/dirty_writeback_centisecs &&"
            f" echo {WRITE_BACK_S} >{DRAIN_S}",
        )
        yield machine


def check_armed(machine: Machine) -> None:
    """A Stop is armed, and the supply could feed it."""
    status = sh(machine, "cat /sys/kernel/remanence/status").strip()
    if status != "armed":
        raise RemError(f"gains count while a Stop is armed, and it is {status!r}")
    if machine.supply.charge != fmt.Charge.FULL or not machine.supply.power_ok:
        raise RemError("gains count while the supply is charged, and it is not")


def check_way(name: str, way: str, run: Run, off: Run | None) -> None:
    """Raise RemError unless the counts are those of the way; *off*: the same without."""
    if way in IN_MEMORY and not run.in_memory:
        raise RemError(f"{name}: no fsync ended in memory: what was measured is the disk")
    if way not in IN_MEMORY and run.in_memory:
        raise RemError(f"{name}, {way}: {run.in_memory} fsyncs ended in memory: none should")
    if way == OFF and not run.flushes:
        raise RemError(f"{name}: the disk has seen no flush: the program waits for none")
    if way == EATMYDATA and off is not None:
        left = run.flushes_per_operation / off.flushes_per_operation
        if left > FLUSHES_LEFT_MAX:
            raise RemError(f"{name}: libeatmydata left {left:.0%} of the flushes: is it loaded?")


def read_run(program: Program, said: str) -> Run:
    """From the output of SCRIPT: counts, what the program printed, counts."""
    parts = said.split(CUT_LINE)
    if len(parts) != 3:
        raise RemError(f"{program.name}: the run printed no counts: {said.strip()[-200:]!r}")
    before, after = (dict(re.findall(r"^(\w+) (\d+)$", text, re.M)) for text in parts[::2])

    def grown(*names: str) -> int:
        return sum(int(after[name]) - int(before[name]) for name in names)

    return Run(
        rate=program.rate(parts[1]),
        in_memory=grown("in_memory"),
        by_disk=grown("by_disk"),
        drains=grown("drains"),
        flushes=grown("flushes", "fuas"),
    )


def set_disk(machine: Machine, disk: str) -> None:
    """From now on the disk takes the times of that row of the table."""
    for name, value in disk_words(disk).items():
        sh(machine, f"echo {value} >/sys/module/rem_disk/parameters/{name}")


def begin_way(machine: Machine, program: Program, disk: str, way: str) -> str:
    """The machine is as the way has it. Return the program's environment."""
    set_disk(machine, disk)
    wanted = way if way in IN_MEMORY else "disk"
    sh(machine, f"echo {wanted} >{SYSFS}/state")
    if state(machine) != wanted:
        raise RemError(f"fsync: {wanted!r} was asked for, and it is {state(machine)!r}")
    check_armed(machine)
    env = PRELOAD if way == EATMYDATA else ""
    sh(machine, f"{program.fresh.format(env=env)} && sync")
    return env


def measure_way(machine: Machine, program: Program, disk: str, way: str, seconds: int) -> Run:
    """Warm up, then measure. The counts are not checked here."""
    env = begin_way(machine, program, disk, way)
    command = program.run.format(env=env, seconds=seconds)
    run = read_run(program, sh(machine, SCRIPT.format(command=command)))
    sh(machine, program.end.format(env=""))
    check_armed(machine)
    return run


def measure_program(machine: Machine, plan: Plan, program: Program) -> Runs:
    """All ways of one program."""
    sh(machine, f"echo disk >{SYSFS}/state; {program.once.format(env='')}")
    found: Runs = {}
    for disk, ways in WAYS.items():
        off = None
        for way in ways:
            run = measure_way(machine, program, disk, way, plan.seconds)
            check_way(program.name, way, run, off)
            off = off or run
            found[program.name, disk, way] = run
    return found


def measure_stops(machine: Machine, count: int) -> Stops:
    """The longest Stop of so many, while mail is delivered and fsync ends in memory."""
    sh(machine, f"echo memory >{SYSFS}/state; rm -rf {FOLDER}/mail")
    return rfa_stops.measure(machine, f"/root/mail_load {FOLDER}/mail {MAILS} 60", count)


def measure(plan: Plan, memory: str) -> tuple[Runs, Stops]:
    """Everything on one memory."""
    with rig(plan, memory) as machine:
        found: Runs = {}
        for name in plan.programs:
            with step(f"{memory}: {name}"):
                found |= measure_program(machine, plan, PROGRAMS[name])
        with step(f"{memory}: {plan.stops} Stops"):
            return found, measure_stops(machine, plan.stops)


def kept_off_cost() -> float:
    """The most that a fast path costs with all of it off, as `rem bench fast-path` was kept."""
    path = repo_dir() / "docs" / "figures" / "fast-path.json"
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
        return off_cost({name: figure["value"] for name, figure in figures.items()})
    except (OSError, ValueError, KeyError) as error:
        raise RemError(f"{path}: no figures of `rem bench fast-path` ({error})") from error


def off_cost(figures: dict[str, float]) -> float:
    """Instructions of a system call or a page fault over those without our code, at most.

    A difference within the spread of repeated runs is none.
    """
    worst = 0.0
    for loop in OFF_COST_LOOPS:
        over = figures[f"{loop}_insns_over_unpatched"]
        spread = max(
            figures[f"{loop}_spread_insns_{kernel}"] for kernel in ("patched", "unpatched")
        )
        worst = max(worst, over if over > spread else 0.0)
    return worst


def add_figures(result: Result, memory: str, runs: Runs) -> None:
    """Rates and ratios of one memory."""
    for (name, disk, way), run in runs.items():
        key = f"{name}_{memory}_{'plp_' if disk == PLP else ''}{way}"
        result.add(f"{key}_per_s", round(run.rate, 1), "1/s", "modelled")
        if way in IN_MEMORY:
            gain = run.rate / runs[name, disk, OFF].rate
            result.add(f"{key}_gain", round(gain, 3), "times", "modelled")
            if most := runs.get((name, disk, EATMYDATA)):
                share = run.rate / most.rate
                result.add(f"{key}_vs_eatmydata", round(share, 3), "", "modelled")
            result.add(f"{key}_in_memory", run.in_memory, "fsyncs", "counted")
            result.add(f"{key}_by_disk", run.by_disk, "fsyncs", "counted")
            result.add(f"{key}_drains", run.drains, "", "counted")


def least(found: dict[str, Runs], disk: str, other: str) -> tuple[float, str]:
    """The smallest ratio of a rate in memory to that of another way, and where it is."""
    ratios = {
        f"{name} on {memory}": run.rate / runs[name, disk, other].rate
        for memory, runs in found.items()
        for (name, at, way), run in runs.items()
        if at == disk and way == MEMORY
    }
    where = min(ratios, key=lambda place: ratios[place])
    return ratios[where], where


def judge(result: Result, found: dict[str, Runs], stops: list[Stops], cost: float) -> list[str]:
    """Add what is over all programs and memories. Return a line for each aim that is missed."""
    missed = []

    def miss(name: str, line: str) -> None:
        result.miss(name)
        missed.append(f"MISSED: {line}")

    gain, gain_at = least(found, SSD, OFF)
    share, share_at = least(found, SSD, EATMYDATA)
    result.add("fsync_gain", round(gain, 3), "times", "modelled")
    result.add("fsync_gain_at", gain_at, "", "modelled")
    result.add("vs_eatmydata", round(share, 3), "", "modelled")
    result.add("vs_eatmydata_at", share_at, "", "modelled")
    result.add("fsync_gain_plp", round(least(found, PLP, OFF)[0], 3), "times", "modelled")
    result.add("off_cost", cost, "instructions", "counted")
    if gain < GAIN_AIM:
        miss("fsync_gain", f"fsync_gain {gain:.2f} ({gain_at}): {GAIN_AIM:g} is the aim")
    if share < VS_EATMYDATA_AIM:
        miss("vs_eatmydata", f"vs_eatmydata {share:.2f} ({share_at}): {VS_EATMYDATA_AIM:g}")
    missed += rfa_stops.judge(result, stops)
    if cost > 0:
        miss("off_cost", f"off_cost {cost:g} instructions: 0 is the aim")
    return missed


def run(plan: Plan, result: Result, print_line: Callable[[str], None]) -> None:
    """Measure all and add it to *result*, which is not ok if an aim is missed."""
    for memory in plan.memories:
        check_memory(memory)
    cost = kept_off_cost()
    need_all(list(PARTS))
    found: dict[str, Runs] = {}
    stops = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(lambda memory: measure(plan, memory), plan.memories)
        for memory, (runs, one) in zip(plan.memories, done, strict=True):
            found[memory] = runs
            stops.append(one)
            add_figures(result, memory, runs)
    result.add("journal", plan.journal, "", "counted")
    for line in judge(result, found, stops, cost):
        print_line(line)

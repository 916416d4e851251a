# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench machine`: the cost of the models: the same guest under the same icount, without the
plugin, with volatile caches, and with a memory controller behind them.

Method: one machine of each kind, one CPU, in parallel. Each round runs the same load on one
machine after the other while the rest are stopped over QMP, so that other work of the host affects
all alike. The compared quantity is QEMU's CPU time per busy instruction of the guest, which is
guest CPU time under icount (1 ns per instruction). A load's figure is the ratio of the two best
rounds, as other work of the host only makes a round slower. The spread of the rounds' ratios is
reported.

With a controller guest time is no count of instructions. So that machine is compared with the one
that has caches only, by the CPU time for the same units of a load, all that the guest does in them
included; its instructions are the plugin's count.

QEMU's own cache plugin is several times slower, so its rounds are a fifth as long and its figure is
coarser: vs_contrib is the geometric mean over the loads of the ratio of the two plugins' best
rounds, vs_contrib_least the smallest of them. It models at most two levels, with its own sizes;
ours models three, and their state after a cut.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean

from lab.errors import InfraError, RemError
from lab.machine.config import MachineConfig
from lab.machine.machine import Machine
from lab.machine.plugin import STOPPED_OUT, PluginControl, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.messages import info
from lab.progress import step
from lab.result import Result

BOOT_LIMIT_S = 600.0
LOAD_LIMIT_S = 900.0
NS_OF_TICK = 1_000_000_000 // 100  # the tick of /proc/stat
# With fewer instructions in a round the resolution of ticks is too coarse.
INSNS_MIN = 200_000_000
BARE, CACHES, MEMORY, CONTRIB = "bare", "caches", "memory", "contrib"
# The slow plugin's rounds are shorter by this factor.
CONTRIB_PART = 5
# One unit of each load, as a shell loop's body; about 10^8 instructions each.
REDIS = "redis-benchmark -p 7777 -n 1500 -c 4 -t set,get -r 10000 -q >/dev/null"
SQLITE = (
    "rm -f /tmp/bench.db; sqlite3 /tmp/bench.db 'create table t(a integer primary key, b text); "
    "with recursive c(i) as (select 1 union all select i + 1 from c where i < 8000) "
    "insert into t select i, hex(randomblob(20)) from c; create index ti on t(b); "
    'select count(*), sum(length(b)) from t where b like "%A1%";\' >/dev/null'
)
GCC = (
    "printf '#include <stdio.h>\\n#include <stdlib.h>\\nint main(void){return 0;}\\n' "
    "> /tmp/bench.c && gcc -O2 -c /tmp/bench.c -o /tmp/bench.o"
)
LOADS = {"redis": REDIS, "sqlite": SQLITE, "gcc": GCC}
START = {
    "redis": "redis-server --port 7777 --save '' --daemonize yes >/dev/null; "
    "until redis-cli -p 7777 ping >/dev/null 2>&1; do sleep 0.1; done"
}


@dataclass(frozen=True)
class Plan:
    """What to measure. *memory*: a controller, for one more machine; None: none. *contrib*: QEMU's
    contrib/plugins/cache.c, built; None: no comparison."""

    kernel: Path
    loader: Path
    root: Path
    plugin: Path
    profile: str
    loads: tuple[str, ...]
    insns: int  # total of busy instructions, on each machine
    rounds: int
    nvram_dir: Path | None = None
    memory: str | None = None
    contrib: Path | None = None


@dataclass
class Way:
    """One machine."""

    machine: Machine
    control: PluginControl | None = None  # where the plugin counts instructions
    insns: int = 0
    cpu_s: float = 0.0
    samples: dict[str, list[float]] = field(default_factory=dict)  # s per instruction, by load
    unit_s: dict[str, list[float]] = field(default_factory=dict)  # s per unit of a load

    def qmp(self, command: str) -> None:
        assert self.machine.qemu is not None, "the machine is off"
        self.machine.qemu.qmp.execute(command)

    def qemu_cpu_s(self) -> float:
        assert self.machine.qemu is not None, "the machine is off"
        stat = Path(f"/proc/{self.machine.qemu.pid}/stat").read_text(encoding="ascii")
        words = stat.rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def busy_insns(self) -> int:
        """Return busy instructions so far: the plugin's count where guest time is none, else the
        busy time of the guest's only CPU, 1 ns each.
        """
        if self.control is not None:
            return self.control.read().total
        words = self.machine.run_in_guest("head -1 /proc/stat").stdout.split()
        user, nice, system, _idle, _iowait, irq, softirq = (int(word) for word in words[1:8])
        return (user + nice + system + irq + softirq) * NS_OF_TICK

    def measure(self, load: str, units: int) -> float:
        """Run a load; return seconds of the host's CPU per instruction."""
        self.qmp("cont")
        insns, cpu_s = self.busy_insns(), self.qemu_cpu_s()
        text = f"n=0; while [ $n -lt {units} ]; do {LOADS[load]} || exit 1; n=$((n+1)); done"
        self.machine.run_in_guest(text, limit_s=LOAD_LIMIT_S)
        insns, cpu_s = self.busy_insns() - insns, self.qemu_cpu_s() - cpu_s
        self.qmp("stop")
        if insns < INSNS_MIN:
            raise RemError(f"{load}: only {insns} instructions in a round: give more --insns")
        self.insns += insns
        self.cpu_s += cpu_s
        self.samples.setdefault(load, []).append(cpu_s / insns)
        self.unit_s.setdefault(load, []).append(cpu_s / units)
        return cpu_s / insns


def _start(plan: Plan, name: str) -> Way:
    config = MachineConfig(
        name=f"bench-machine-{name}-{os.getpid()}",
        kernel=plan.kernel,
        loader=plan.loader,
        root=plan.root,
        cpus=1,
        icount=True,
        nvram_dir=plan.nvram_dir,
        plugin=f"{plan.contrib},l2=on" if name == CONTRIB else None,
    )
    spec = PluginSpec(plan.plugin, cut=True, outs=(STOPPED_OUT,))
    if name in (CACHES, MEMORY):
        argument = spec.argument(ctl_path(config.name))
        memory = plan.memory if name == MEMORY else None
        config = replace(config, plugin=argument, caches=plan.profile, memory=memory)
    machine = Machine.create(config, destroy_on_exit=True)
    try:
        control = attach(machine, spec) if name in (CACHES, MEMORY) else None
        machine.boot()
    except BaseException:
        machine.destroy()
        raise
    return Way(machine, control if name == MEMORY else None)


def _units(ways: dict[str, Way], load: str, insns: int) -> int:
    """Return the number of the load's units per round, from one run on `bare`."""
    way = ways[BARE]
    way.qmp("cont")
    before = way.busy_insns()
    way.machine.run_in_guest(f"for n in 1 2 3; do {LOADS[load]}; done", limit_s=LOAD_LIMIT_S)
    unit = max((way.busy_insns() - before) // 3, NS_OF_TICK)
    way.qmp("stop")
    return max(1, -(-insns // unit))


def _measure_load(ways: dict[str, Way], load: str, plan: Plan) -> dict[str, list[float]]:
    for way in ways.values():
        way.qmp("cont")
        way.machine.run_in_guest(START.get(load, "true"), limit_s=LOAD_LIMIT_S)
        way.qmp("stop")
    units = _units(ways, load, plan.insns // (plan.rounds * len(plan.loads)))
    ratios: dict[str, list[float]] = {name: [] for name in ways if name != BARE}
    with step(f"load {load}", plan.rounds, "rounds") as shown:
        for number in range(1, plan.rounds + 1):
            bare = ways[BARE].measure(load, units)
            line = f"  {load} {number}/{plan.rounds}: bare {1e-6 / bare:.0f} MIPS"
            for name in ratios:
                part = -(-units // CONTRIB_PART) if name == CONTRIB else units
                ratio = ways[name].measure(load, part) / bare
                ratios[name].append(ratio)
                line += f", {name} {ratio:.2f} times slower"
            shown.advance()
            info(line)
    return ratios


def _names(plan: Plan) -> list[str]:
    """The machines."""
    memory = [MEMORY] if plan.memory is not None else []
    return [BARE, CACHES, *memory, *([CONTRIB] if plan.contrib is not None else [])]


def _add_memory(result: Result, ways: dict[str, Way], loads: tuple[str, ...]) -> None:
    """Figures of the machine with a controller."""
    worst = 0.0
    for load in loads:
        caches, memory = ways[CACHES].unit_s[load], ways[MEMORY].unit_s[load]
        best = min(memory) / min(caches)
        rounds = [after / before for before, after in zip(caches, memory, strict=True)]
        worst = max(worst, best)
        result.add(f"slowdown_vs_caches_{load}", round(best, 3), "times", "native")
        spread = round(max(rounds) - min(rounds), 3)
        result.add(f"slowdown_vs_caches_{load}_spread", spread, "times", "native")
    mips = ways[MEMORY].insns / ways[MEMORY].cpu_s / 1e6
    result.add("slowdown_vs_caches", round(worst, 3), "times", "native")
    result.add("memory_mips", round(mips, 1), "MIPS", "native")


def run_bench(plan: Plan) -> Result:
    """Run all loads on all machines."""
    if plan.contrib is not None and not plan.contrib.is_file():
        raise InfraError(f"{plan.contrib} is not a file: build QEMU's contrib/plugins/cache.c")
    result = Result("machine")
    slowdowns: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        ways: dict[str, Way] = {}
        for name in _names(plan):
            ways[name] = way = _start(plan, name)
            stack.callback(way.machine.destroy)
        for way in ways.values():
            way.machine.wait_up(BOOT_LIMIT_S)
            way.qmp("stop")
        for load in plan.loads:
            for name, rounds in _measure_load(ways, load, plan).items():
                best = min(ways[name].samples[load]) / min(ways[BARE].samples[load])
                slowdowns.setdefault(name, {})[load] = best
                if name == CACHES:
                    result.add(f"slowdown_{load}", round(best, 3), "times", "native")
                    spread = max(rounds) - min(rounds)
                    result.add(f"slowdown_{load}_spread", round(spread, 3), "times", "native")
        for way in ways.values():
            way.qmp("cont")
    result.add("slowdown_vs_bare", round(max(slowdowns[CACHES].values()), 3), "times", "native")
    result.add("mips", round(ways[CACHES].insns / ways[CACHES].cpu_s / 1e6, 1), "MIPS", "native")
    result.add("busy_insns", ways[CACHES].insns, "insns", "counted")
    if MEMORY in ways:
        _add_memory(result, ways, plan.loads)
    if CONTRIB in slowdowns:
        for load in plan.loads:
            slower = slowdowns[CONTRIB][load]
            result.add(f"contrib_slowdown_{load}", round(slower, 2), "times", "native")
        ratios = [slowdowns[CONTRIB][load] / slowdowns[CACHES][load] for load in plan.loads]
        result.add("vs_contrib", round(geometric_mean(ratios), 2), "times", "native")
        result.add("vs_contrib_least", round(min(ratios), 2), "times", "native")
    return result

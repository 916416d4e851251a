# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cost of the fast paths of normal running, in instructions: `rem bench fast-path`.

They must contain no code of ours. The guest's only program runs the same loops on the same machine
under several kernels:

    patched             ours
    unpatched           the same source and configuration without our patches
    debian              Debian's binary of the same version: another configuration
    debian_preempt      the same with preempt=full: as preemptible as ours
    debian_unmitigated  the same with mitigations=off as well: ours has none

The guest reads one letter per line and runs that loop with n and with 2n iterations between three
marks of the plugin (guest/fast-path/init.c). The difference is n iterations, without the cost of
entering and leaving the loop. This is repeated. A run in which the timer ticks, or a list of free
pages is filled again, takes more instructions than the others, never fewer; so the figure is that
of the shortest runs. The spread is their distance from the lower quartiles: 0 if a quarter of the
runs took the same.

Each kernel has as much memory, as the page allocator's lists have a length for its size: ours has
NVRAM, and the others, for which NVRAM is no main memory, have DRAM.

One CPU, icount, no devices but the console. Marks are addresses of the program, so a kernel needs
no symbols and KASLR may be on; it is off, so that runs are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import run
from lab.errors import RemError
from lab.machine.config import MachineConfig
from lab.machine.machine import Machine
from lab.machine.plugin import STOPPED_OUT, PluginControl, PluginSpec, ctl_path
from lab.machine.plugin_clock import attach
from lab.messages import info
from lab.progress import step, waiting
from lab.result import Result
from lab.setup import products
from lab.setup.fast_path import FastPath
from lab.setup.kernel_plain import PlainDebian, Unpatched
from lab.setup.products import Loader, Part, Plugin, need_all

MARKS = ("mark_begin", "mark_middle", "mark_end")
# The guest's letter for a loop, and the work of one iteration.
LOOPS = {
    "syscall": ("s", "one system call, getppid()"),
    "fault": ("a", "one page of anonymous memory touched, later unmapped"),
    "file_fault": ("f", "16 pages of a file in the page cache mapped by one fault, later unmapped"),
}
OURS, WITHOUT = "patched", "unpatched"
DEBIAN_CMDLINE = {
    "debian": "",
    "debian_preempt": "preempt=full",
    "debian_unmitigated": "preempt=full mitigations=off",
}
MACHINE = "bench-fast-path"
REPEATS = 60
MEMORY_BYTES = 1 << 30
READY = r"REM-FAST-PATH-READY (\d+) (\S+)\s"
DONE = "REM-FAST-PATH-DONE"
BOOT_LIMIT_S = 300.0
LOOP_LIMIT_S = 60.0
# Lists of free pages so long that the page allocator returns and takes none while loops run.
CMDLINE = "nokaslr quiet sysctl.vm.percpu_pagelist_high_fraction=8"


@dataclass(frozen=True)
class Kernel:
    """One of the compared kernels."""

    name: str  # part of the names of figures
    bz_image: Path
    cmdline: str = ""


@dataclass(frozen=True)
class Plan:
    kernels: tuple[Kernel, ...]
    loader: Path
    init: Path
    initrd: Path
    plugin: Path
    repeats: int = REPEATS
    machine: str = MACHINE


@dataclass(frozen=True)
class Pair:
    """Instructions of a loop with n iterations and of one with 2n, including the marks."""

    short_insns: int
    long_insns: int


@dataclass(frozen=True)
class Cost:
    """The cost of one iteration."""

    insns: float
    spread_insns: float  # from the shortest run to the lower quartile, of both lengths together


def make_plan(names: Sequence[str], repeats: int = REPEATS, machine: str = MACHINE) -> Plan:
    """Return a plan with products of set-up; only the named kernels are built."""
    own: dict[str, Part[Any]] = {OURS: products.Kernel(), WITHOUT: Unpatched()}
    parts = {name: own.get(name, PlainDebian()) for name in names}
    made = need_all([*parts.values(), FastPath(), Loader(), Plugin()])

    def kernel(name: str) -> Kernel:
        return Kernel(name, made[parts[name]].bz_image, DEBIAN_CMDLINE.get(name, ""))

    guest = made[FastPath()]
    return Plan(
        kernels=tuple(kernel(name) for name in names),
        loader=made[Loader()],
        init=guest.init,
        initrd=guest.initrd,
        plugin=made[Plugin()],
        repeats=repeats,
        machine=machine,
    )


def cost_of(pairs: Sequence[Pair], iterations: int) -> Cost:
    """Return the cost from repeated runs; *iterations* is n."""
    if not pairs or iterations < 1:
        raise RemError(f"{len(pairs)} runs of {iterations} iterations: too few to derive a cost")
    short = sorted(pair.short_insns for pair in pairs)
    long = sorted(pair.long_insns for pair in pairs)
    quartile = len(pairs) // 4
    spread = short[quartile] - short[0] + long[quartile] - long[0]
    return Cost((long[0] - short[0]) / iterations, spread / iterations)


def mark_addresses(init: Path) -> tuple[int, ...]:
    """The addresses of the program's marks."""
    symbols = {}
    for line in run.run(["nm", init]).stdout.splitlines():
        words = line.split()
        if len(words) == 3:
            symbols[words[2]] = int(words[0], 16)
    if lacking := [name for name in MARKS if name not in symbols]:
        raise RemError(f"{init} has no {', '.join(lacking)}: rebuild it with `make`")
    return tuple(symbols[name] for name in MARKS)


def measure(
    plan: Plan, kernel: Kernel, loops: Mapping[str, tuple[str, str]] = LOOPS
) -> dict[str, Cost]:
    """Boot the machine with this kernel and run all loops; return costs by name of the loop."""
    spec = PluginSpec(
        plan.plugin, count=True, pcs=mark_addresses(plan.init), outs=(STOPPED_OUT,)
    )  # fmt: skip
    config = MachineConfig(
        name=plan.machine,
        kernel=kernel.bz_image,
        loader=plan.loader,
        initrd=plan.initrd,
        cpus=1,
        dram_bytes=MEMORY_BYTES,
        nvram_bytes=MEMORY_BYTES,
        cmdline_extra=f"{CMDLINE} {kernel.cmdline} rdinit=/init".replace("  ", " "),
        icount=True,
        plugin=spec.argument(ctl_path(plan.machine)),
        network="none",
    )
    with Machine.create(config, destroy_on_exit=True) as machine:
        control = attach(machine, spec)
        control.prepare()
        with step(f"{kernel.name}: boot"):
            machine.boot()
            control.wait_ready()
            assert machine.console is not None
            ready = machine.console.expect(READY, BOOT_LIMIT_S)
        iterations, state = int(ready.group(1)), ready.group(2)
        if kernel.name == OURS and state != "armed":
            raise RemError(f"in normal running a Stop is armed, but this kernel's is {state!r}")
        costs = {}
        for name, (letter, what) in loops.items():
            with waiting(f"{kernel.name}: {plan.repeats} runs of {name}"):
                pairs = [_run_loop(machine, control, letter) for _ in range(plan.repeats)]
            cost = costs[name] = cost_of(pairs, iterations)
            info(f"  {cost.insns:10,.2f} instructions (spread {cost.spread_insns:g}): {what}")
        if warnings := machine.kernel_warnings():
            raise RemError(f"the kernel `{kernel.name}` warned: {warnings[0]}")
        return costs


def _run_loop(machine: Machine, control: PluginControl, letter: str) -> Pair:
    console = machine.console
    assert console is not None
    control.reset_marks()
    since = console.position()
    console.send(f"{letter}\n".encode())
    console.expect(f"{DONE} {letter}", LOOP_LIMIT_S, since)
    passed = [control.first(index) for index in range(len(MARKS))]
    counts = [snapshot.total for snapshot in passed if snapshot is not None]
    if len(counts) != len(MARKS):
        raise RemError(f"the guest ran loop {letter!r} and the plugin saw {len(counts)} marks of 3")
    return Pair(counts[1] - counts[0], counts[2] - counts[1])


def add_figures(result: Result, costs: dict[str, dict[str, Cost]]) -> None:
    """*costs*: by kernel, then by loop. `over`: ours minus the other."""

    def add(name: str, value: float) -> None:
        result.add(name, int(value) if value == int(value) else value, "instructions", "counted")

    for loop in LOOPS:
        for kernel, by_loop in costs.items():
            add(f"{loop}_insns_{kernel}", by_loop[loop].insns)
            add(f"{loop}_spread_insns_{kernel}", by_loop[loop].spread_insns)
        for kernel, by_loop in costs.items():
            if OURS in costs and kernel != OURS:
                add(f"{loop}_insns_over_{kernel}", costs[OURS][loop].insns - by_loop[loop].insns)


def longer(costs: dict[str, dict[str, Cost]]) -> list[str]:
    """Loops that our patches make longer, by more than the spread of repeated runs."""
    if OURS not in costs or WITHOUT not in costs:
        return []
    found = []
    for loop in LOOPS:
        ours, without = costs[OURS][loop], costs[WITHOUT][loop]
        if ours.insns - without.insns > max(ours.spread_insns, without.spread_insns):
            found.append(loop)
    return found


Measure = Callable[[Plan, Kernel], dict[str, Cost]]


def run_bench(plan: Plan, measured: Measure = measure) -> Result:
    """Run the plan. Not ok if our patches make a fast path longer."""
    costs = {kernel.name: measured(plan, kernel) for kernel in plan.kernels}
    result = Result("fast-path")
    add_figures(result, costs)
    for loop in longer(costs):
        info(f"{loop}: our patches make it longer")
        result.ok = False
    return result

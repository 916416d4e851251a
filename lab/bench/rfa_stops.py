# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench rfa`: how long a Stop takes while a program works, and what the supply has left then.

The kernel knows the supply's window, and how long the write-back of the caches may take on this
memory (lab/bench/write_back.py). So the bound that it computes is that of a real machine: with DRAM
as a cache, so many pages may differ from their homes as a Stop can copy in what the window leaves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.bench.write_back import write_back_us
from lab.errors import RemError
from lab.machine.config import MachineConfig
from lab.machine.machine import Machine
from lab.power.model import PowerModel
from lab.result import Result

SUPPLY = "server-55"  # whose window the kernel is told
GO_LIMIT_S = 600.0
LIMIT_S = 3600.0  # only for hangs
PAUSE_S = 2.0  # of the host, so that the next Stop comes at another place of the load
BUDGET = "/sys/kernel/remanence/budget"
# After a Go the machine arms while programs run already; not if the Stop was over its bound.
ARMED = f"""until grep -q armed /sys/kernel/remanence/status; do
    grep -q "exceeded 1" {BUDGET} && echo acknowledge >{BUDGET}
    sleep 0.1
done"""


@dataclass(frozen=True)
class Stops:
    """Of one machine."""

    longest_ns: int
    bound_ns: int  # the kernel's own
    hold_up_ns: int

    @property
    def margin_ns(self) -> int:
        """What the supply still has after a Stop of the bound, or a longer one that was seen."""
        return self.hold_up_ns - max(self.bound_ns, self.longest_ns)


def supplied(config: MachineConfig, memory: str, profile: str) -> MachineConfig:
    """The same machine on SUPPLY; the kernel's line says so, and how long its caches take."""
    hold_up_ns = PowerModel.ready().window_ns(SUPPLY)
    flush_us = write_back_us(memory, profile, config.cpus, config.nvram_bytes)
    words = f"remanence.hold_up_us={hold_up_ns // 1000} remanence.flush_us={flush_us}"
    line = f"{config.cmdline_extra} {words}".strip()
    return replace(config, cmdline_extra=line, hold_up_ns=hold_up_ns)


def begin_load(machine: Machine, load: str) -> None:
    """The shell's words *load* run again and again: the machine is not used for anything else."""
    _shell(
        machine,
        f"cat >/run/load <<'END'\nwhile :; do {load}\ndone\nEND\n"
        "setsid bash /run/load </dev/null >/dev/null 2>/tmp/load.log &",
    )


def measure(machine: Machine, load: str, count: int) -> Stops:
    """The longest Stop of so many, under that load: begin_load()."""
    begin_load(machine, load)
    longest_ns = 0
    for _ in range(count):
        time.sleep(PAUSE_S)
        _shell(machine, ARMED)
        record = machine.cut()
        if not record.stopped or record.stopped_after_ns is None:
            raise RemError("the machine did not stop within the hold-up of its supply")
        longest_ns = max(longest_ns, record.stopped_after_ns)
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
    lines = _shell(machine, f"cat {BUDGET}").splitlines()
    budget = {name: int(value) for name, value in (line.split() for line in lines)}
    return Stops(longest_ns, budget["bound_ns"], budget["hold_up_ns"])


def _shell(machine: Machine, text: str) -> str:
    return machine.guest.run(text, limit_s=LIMIT_S).stdout


def judge(result: Result, stops: Sequence[Stops], of: str = "") -> list[str]:
    """Add what is over all machines; *of* begins the names. Return a line for each missed aim."""
    missed = []
    margin_ns = min(one.margin_ns for one in stops)
    result.add(f"{of}stop_max_ns", max(one.longest_ns for one in stops), "ns", "modelled")
    result.add(f"{of}stop_bound_ns", max(one.bound_ns for one in stops), "ns", "modelled")
    result.add(f"{of}stop_margin_ns", margin_ns, "ns", "modelled")
    late = [one for one in stops if one.longest_ns > one.bound_ns]
    if late:
        ns = max(one.longest_ns for one in late)
        result.miss(f"{of}stop_max_ns")
        missed.append(f"MISSED: a Stop took {ns} ns, over the kernel's bound: it disarms then")
    if margin_ns < 0:
        result.miss(f"{of}stop_margin_ns")
        missed.append(f"MISSED: {of}stop_margin_ns {margin_ns}: a Stop may outlast the supply")
    return missed

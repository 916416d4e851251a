# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What persistent memory costs, in instructions of the guest: `rem bench pm`.

One CPU under icount: the guest's clock counts instructions, 1 ns each, so that figures are the same
at each run of the same binaries but for where a timer's tick falls. No cache and no device has a
latency in this. A durable database on the machine's own disk is not among the figures: while the
guest waits for QEMU's disk this clock jumps from timer to timer, which tells nothing of a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.demo.pm_machine import install, load, machine_with_region, sh, wait_up
from lab.machine import Machine
from lab.result import Result

MACHINE = "bench-pm"


@dataclass(frozen=True)
class Plan:
    rows: int = 2000
    operations: int = 500
    segments: int = 500
    machine: str = MACHINE


def run(plan: Plan, tell: Callable[[str], None]) -> Result:
    result = Result("bench-pm")
    with machine_with_region(plan.machine, cpus=1, icount=True) as machine:
        machine.boot()
        wait_up(machine)
        install(machine)
        load(machine, "format=1")
        result.add("model", "flat-1ns", "", "modelled")
        tell("disks")
        raw, block = _disks(machine, plan, result)
        tell("a database")
        _database(machine, plan, result, {"raw": raw, "block": block})
        tell("segments")
        took = _bench(machine, f"segments {plan.segments}")
        result.add("create_destroy_few", took["few"], "ns", "modelled")
        result.add("create_destroy_many", took["many"], "ns", "modelled")
        result.add("create_destroy_ratio", _ratio(took["many"], took["few"]), "ratio", "modelled")
    return result


def _bench(machine: Machine, words: str) -> dict[str, int]:
    said = sh(machine, f"python3 /root/pm-bench.py {words}").stdout
    return {name: int(value) for name, value in map(str.split, said.splitlines())}


def _ratio(one: int, other: int) -> float:
    return round(one / other, 3)


def _disks(machine: Machine, plan: Plan, result: Result) -> tuple[str, str]:
    sh(machine, "pmadmin create raw 32M && pmadmin create block 32M --block 4096")
    found = []
    for name in ("raw", "block"):
        device = sh(machine, f"pmadmin ramdisk add {name}").stdout.strip()
        took = _bench(machine, f"disk {device} {plan.operations}")
        result.add(f"{name}_read_4k", took["read"], "ns", "modelled")
        result.add(f"{name}_write_4k", took["write"], "ns", "modelled")
        found.append(device)
    return found[0], found[1]


def _database(machine: Machine, plan: Plan, result: Result, disks: dict[str, str]) -> None:
    """Part of PM-T1: rows committed one at a time, without durability and on pmramd."""
    places = {}
    for name, device in disks.items():
        places[name] = f"/mnt/{name}"
        sh(machine, f"mkdir -p /mnt/{name} && mkfs.ext4 -q -F {device}")
        sh(machine, f"mount {device} /mnt/{name}")
    base = _bench(machine, f"sqlite /root {plan.rows} no")["row"]
    result.add("sqlite_row_not_durable", base, "ns", "modelled")
    for name, place in places.items():
        row = _bench(machine, f"sqlite {place} {plan.rows} durable")["row"]
        result.add(f"sqlite_row_on_{name}", row, "ns", "modelled")
        result.add(f"sqlite_{name}_vs_not_durable", _ratio(row, base), "ratio", "modelled")

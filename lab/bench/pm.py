# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cost of persistent memory, in instructions of the guest: `rem bench pm`.

One CPU under icount: the guest's clock counts instructions, 1 ns each, so that runs of the same
binaries differ only by timer ticks. No cache and no device has a latency. A durable database on the
machine's own disk is not measured: while the guest waits for QEMU's disk this clock jumps from
timer to timer.

Compared with: the kernel's RAM disk (brd), which is not persistent; a block translation table
(nd_btt) on a pmem device, whose sectors are written atomically, without a checksum of their
content. `ramd_read_vs_brd` is of a disk on a raw segment, plain memory like brd's.
`ramd_write_vs_btt` is of a disk on checked blocks, whose writes are atomic, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from lab.machine import Machine
from lab.machine.qemu import NVRAM_PHYS
from lab.result import Result
from lab.testbed.pm_guest import guest_with_region, load, sh, unload

MACHINE = "bench-pm"
BTT_PHYS = NVRAM_PHYS + (512 << 20)  # in front of the region, so that its device is pmem0
BTT_WORDS = f"memmap=64M!{BTT_PHYS:#x} brd.rd_nr=1 brd.rd_size=32768"
REGION = "device=/dev/pmem1 slots=16384"
BTT = (
    "cd /sys/bus/nd && echo namespace0.0 >drivers/nd_pmem/unbind && cd devices/btt0.0"
    " && echo 4096 >sector_size && cat /proc/sys/kernel/random/uuid >uuid"
    " && echo namespace0.0 >namespace && echo btt0.0 >/sys/bus/nd/drivers/nd_pmem/bind"
)
DISKS_MIB = 32
# Required bounds.
READ_VS_BRD_MAX = 1.05
WRITE_VS_BTT_MIN = 1.5
TRANSACTION_MAX = 2.0
MAPPED_MAX = 1.02
MANY_VS_FEW_MAX = 1.05


@dataclass(frozen=True)
class Plan:
    rows: int = 2000
    operations: int = 500
    segments: int = 10000
    machine: str = MACHINE


def run(plan: Plan, print_line: Callable[[str], None]) -> Result:
    result = Result("bench-pm")
    with guest_with_region(plan.machine, cpus=1, icount=True, more=BTT_WORDS) as machine:
        result.add("model", "flat-1ns", "", "modelled")
        load(machine, "format=1", source=REGION)
        sh(machine, f"pmadmin create raw {DISKS_MIB}M")
        sh(machine, f"pmadmin create block {DISKS_MIB}M --block 4096")
        print_line("disks, and their peers")
        _compared(machine, plan, result)
        print_line("a database")
        _database(machine, plan, result, _disks(machine))
        print_line("segments")
        _segments(machine, plan, result)
    for name in missed(result):
        print_line(f"MISSED: {name}")
        result.ok = False
    return result


def missed(result: Result) -> list[str]:
    """Return the requirements that the figures do not meet."""
    limits = {
        "ramd_read_vs_brd": (0.0, READ_VS_BRD_MAX),
        "ramd_write_vs_btt": (WRITE_VS_BTT_MIN, float("inf")),
        "transaction_vs_copy_and_crc": (0.0, TRANSACTION_MAX),
        "mapped_vs_plain": (0.0, MAPPED_MAX),
        "create_destroy_ratio": (0.0, MANY_VS_FEW_MAX),
    }
    return [
        f"{name} is {result.figures[name].value}"
        for name, (least, most) in limits.items()
        if not least <= float(result.figures[name].value) <= most
    ]


def _disks(machine: Machine) -> dict[str, str]:
    return {
        name: sh(machine, f"pmadmin ramdisk add {name}").stdout.strip() for name in ("raw", "block")
    }


def _bench(machine: Machine, words: str) -> dict[str, int]:
    lines = sh(machine, words).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def _ratio(one: int, other: int) -> float:
    return round(one / other, 3)


def _disk(machine: Machine, plan: Plan, result: Result, name: str, device: str) -> dict[str, int]:
    took = _bench(machine, f"pm-bench disk {device} {plan.operations}")
    result.add(f"{name}_read_4k", took["read"], "ns", "modelled")
    result.add(f"{name}_write_4k", took["write"], "ns", "modelled")
    return took


def _compared(machine: Machine, plan: Plan, result: Result) -> None:
    sh(machine, BTT)
    took = {
        name: _disk(machine, plan, result, name, device)
        for name, device in (*_disks(machine).items(), ("brd", "/dev/ram0"), ("btt", "/dev/pmem0s"))
    }
    for name in ("raw", "block"):
        ratio = _ratio(took[name]["read"], took["brd"]["read"])
        result.add(f"ramd_{name}_read_vs_brd", ratio, "ratio", "modelled")
        # Ratio of throughputs.
        ratio = _ratio(took["btt"]["write"], took[name]["write"])
        result.add(f"ramd_{name}_write_vs_btt", ratio, "ratio", "modelled")
    result.add(
        "ramd_read_vs_brd", _ratio(took["raw"]["read"], took["brd"]["read"]), "ratio", "modelled"
    )
    ratio = _ratio(took["btt"]["write"], took["block"]["write"])
    result.add("ramd_write_vs_btt", ratio, "ratio", "modelled")
    sh(machine, "pmadmin ramdisk remove raw && pmadmin ramdisk remove block")
    alone = _bench(machine, f"pm-bench blocks block {plan.operations}")
    result.add("transaction_one_block", alone["transaction"], "ns", "modelled")
    result.add("copy_and_crc_4k", alone["copy_and_crc"], "ns", "modelled")
    ratio = _ratio(alone["transaction"], alone["copy_and_crc"])
    result.add("transaction_vs_copy_and_crc", ratio, "ratio", "modelled")
    mapped = _bench(machine, f"pm-bench map /dev/pm/raw {plan.operations * 20}")
    result.add(
        "mapped_vs_plain", _ratio(mapped["mapped_ps"], mapped["plain_ps"]), "ratio", "modelled"
    )
    _unprotected(machine, plan, result, took)


def _unprotected(
    machine: Machine, plan: Plan, result: Result, took: dict[str, dict[str, int]]
) -> None:
    """The cost of the protection against stray stores."""
    unload(machine)
    load(machine, "protect=0", source=REGION)
    for name, device in _disks(machine).items():
        open_took = _disk(machine, plan, result, f"{name}_unprotected", device)
        ratio = _ratio(took[name]["write"], open_took["write"])
        result.add(f"protection_{name}_write", ratio, "ratio", "modelled")
    unload(machine)
    load(machine, source=REGION)


def _segments(machine: Machine, plan: Plan, result: Result) -> None:
    took = _bench(machine, f"pm-bench segments {plan.segments}")
    result.add("create_destroy_few", took["few"], "ns", "modelled")
    result.add("create_destroy_many", took["many"], "ns", "modelled")
    result.add("create_destroy_ratio", _ratio(took["many"], took["few"]), "ratio", "modelled")
    result.add("segments_many", plan.segments, "segments", "counted")


def _row_ns(machine: Machine, folder: str, rows: int, how: str) -> int:
    text = sh(machine, f"python3 /root/pm-rows.py sqlite {folder} - {rows} {how}").stdout
    return int(json.loads(text)["wall_ns"]) // rows


def _database(machine: Machine, plan: Plan, result: Result, disks: dict[str, str]) -> None:
    """Part of PM-T1: rows committed one at a time, without durability and on pmramd."""
    places = {}
    for name, device in disks.items():
        places[name] = f"/mnt/{name}"
        sh(machine, f"mkdir -p /mnt/{name} && mkfs.ext4 -q -F {device}")
        sh(machine, f"mount {device} /mnt/{name}")
    base = _row_ns(machine, "/root", plan.rows, "no")
    result.add("sqlite_row_not_durable", base, "ns", "modelled")
    for name, place in places.items():
        row = _row_ns(machine, place, plan.rows, "wal")
        result.add(f"sqlite_row_on_{name}", row, "ns", "modelled")
        result.add(f"sqlite_{name}_vs_not_durable", _ratio(row, base), "ratio", "modelled")

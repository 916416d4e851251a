# SPDX-License-Identifier: Apache-2.0 OR MIT
"""HP-UX Persistent Memory, failure-free performance: see README.md."""

from __future__ import annotations

import json
import os
from typing import Any

from lab.experiment.run import Context, Report
from lab.machine import Machine
from lab.parts import part_number
from lab.testbed.pm_guest import guest_with_region, load, sh

CI_ROWS = 1000
ROWS = 20000
# The settings with which each is not durable, and is; SQLite without a journal and with one.
PROGRAMS = {
    "sqlite": {"none": "no", "none_wal": "log", "durable": "wal"},
    "redis": {"none": "no", "durable": "always"},
}
# What a disk of flash takes for one write, and to bring its cache to safety.
WRITE_NS = int(part_number("nvme", "write_ns"))
FLUSH_NS = int(part_number("nvme", "flush_ns"))
DISK_SHARE = 10  # of the rows, for which the disk's requests are counted: QEMU's disk is slow
MORE_MAX = 0.10  # than without durability, of the best way in persistent memory
SQLITE = "sqlite"
SHOWN = ("none", "dax", "pmramd", "disk")
MKFS = "mkfs.ext4 -q -b 4096 -O fast_commit,^metadata_csum"
# Segment, its options and those of the mount. `plain` is no way of its own: what a disk without
# any latency would take.
DISKS = {
    "pmramd": ("64M --block 4096", "noatime"),
    "plain": ("64M", "noatime"),
    "dax": ("64M", "noatime,dax=always"),
}


def measure(it: Context) -> dict[str, Any]:
    rows = CI_ROWS if it.is_ci else ROWS
    with guest_with_region(f"exp-pm-t1-{os.getpid()}", cpus=1, icount=True) as machine:
        places = _places(machine)
        found: dict[str, Any] = {"rows": rows}
        for program, ways in PROGRAMS.items():
            found[program] = {
                name: _run(
                    machine,
                    program,
                    place,
                    rows // DISK_SHARE if name == "disk" else rows,
                    ways.get(name, ways["durable"]),
                )
                for name, place in places.items()
                if name in ways or not name.startswith("none")
            }
    return found


def _places(machine: Machine) -> dict[str, str]:
    """Folder and device of each way."""
    load(machine, "format=1")
    sh(machine, "mkdir -p /mnt/none /root/disk && mount -t tmpfs none /mnt/none")
    sh(machine, "mkdir /mnt/none/wal")
    places = {"none": "/mnt/none -", "none_wal": "/mnt/none/wal -", "disk": "/root/disk vda"}
    for name, (size, options) in DISKS.items():
        sh(machine, f"mkdir -p /mnt/{name} && pmadmin create {name} {size}")
        disk = sh(machine, f"pmadmin ramdisk add {name}").stdout.strip()
        sh(machine, f"{MKFS} {disk} && mount -o {options} {disk} /mnt/{name}")
        places[name] = f"/mnt/{name} {disk.removeprefix('/dev/')}"
    return places


def _run(machine: Machine, program: str, place: str, rows: int, how: str) -> dict[str, int]:
    found = sh(machine, f"sync; python3 /root/pm-rows.py {program} {place} {rows} {how}").stdout
    took: dict[str, int] = json.loads(found)
    return took


def time_ns(found: dict[str, dict[str, int]], name: str, flush_ns: int = FLUSH_NS) -> float:
    """Of all rows. This clock cannot tell a disk: its requests are counted."""
    if name != "disk":
        return found[name]["wall_ns"]
    asked_ns = found["disk"]["writes"] * WRITE_NS + found["disk"]["flushes"] * flush_ns
    return found["plain"]["wall_ns"] + asked_ns * DISK_SHARE


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    rows = raw["rows"]
    report.count("rows", rows, "rows")
    for program in PROGRAMS:
        found = raw[program]
        base = time_ns(found, "none")
        report.count(f"{program}_disk_writes", found["disk"]["writes"], "writes")
        report.count(f"{program}_disk_flushes", found["disk"]["flushes"], "flushes")
        for name in found:
            ns = time_ns(found, name)
            report.add(f"{program}_{name}_row", round(ns / rows), "ns")
            report.add(f"{program}_{name}_more_than_none", round(ns / base - 1, 4), "share")
        for name in ("dax", "pmramd"):
            saved = 1 - time_ns(found, name) / time_ns(found, "disk")
            least = 1 - time_ns(found, name) / time_ns(found, "disk", 0)
            report.add(f"{program}_{name}_saved_of_disk", round(saved, 4), "share")
            report.add(f"{program}_{name}_saved_of_protected_disk", round(least, 4), "share")
            report.expect(
                f"{program}, {name}: at least the paper's share of the disk's time is saved",
                saved >= paper["saved_of_disk"],
            )
    # The better of the two ways without durability is what counts.
    least_ns = min(time_ns(raw[SQLITE], name) for name in ("none", "none_wal"))
    more = time_ns(raw[SQLITE], "dax") / least_ns - 1
    report.add("sqlite_dax_more_than_best_none", round(more, 4), "share")
    if rows >= paper["rows"]:  # of fewer most are written to a log that still grows
        report.expect("sqlite, dax: at most a tenth more than without durability", more <= MORE_MAX)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    both = figure.subplots(1, 2)
    for axes, program in zip(both, PROGRAMS, strict=True):
        times = [time_ns(raw[program], name) / raw["rows"] / 1e3 for name in SHOWN]
        axes.bar(SHOWN, times)
        axes.axhline(
            times[0] * (1 + paper["more_than_not_durable"]),
            color="gray",
            linestyle="--",
            label="not durable, and 16 % (the paper's persistent memory)",
        )
        axes.set(title=program, ylabel="us a row (modelled)")
        axes.legend(frameon=False, fontsize=8, loc="center left")

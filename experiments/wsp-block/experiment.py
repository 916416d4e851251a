# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, section 3, block-based persistence: see README.md."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lab.experiment.run import Context, Report
from lab.machine import Machine
from lab.testbed.pm_guest import guest_with_region, load, sh

KEYS, KEYS_CI = 40_000, 4_000
UPDATES, UPDATES_CI = 4_000, 400
VALUE_BYTES = 500
SIZE = "96M"
MKFS = "mkfs.ext4 -q -b 4096 -O fast_commit,^metadata_csum"
SCRIPT = Path(__file__).with_name("in_guest.py")
# Where the copy is, and how it is kept.
WAYS = {
    "memory": ("/mnt/none", "memory"),
    "log": ("/mnt/disk", "log"),
    "log, DAX": ("/mnt/dax", "log"),
    "snapshot": ("/mnt/disk", "snapshot"),
}
MEMORY = "memory"


def measure(it: Context) -> dict[str, Any]:
    keys, updates = (KEYS_CI, UPDATES_CI) if it.is_ci else (KEYS, UPDATES)
    with guest_with_region(f"exp-wsp-block-{os.getpid()}", cpus=1, icount=True) as machine:
        machine.guest.put(SCRIPT, "/root/in_guest.py")
        _prepare(machine)
        found = {name: _run(machine, *way, keys, updates) for name, way in WAYS.items()}
    return {"keys": keys, "updates": updates, "ways": found}


def _prepare(machine: Machine) -> None:
    load(machine, "format=1")
    sh(machine, "mkdir -p /mnt/none && mount -t tmpfs none /mnt/none")
    for name, segment, options in (
        ("disk", f"{SIZE} --block 4096", "noatime"),
        ("dax", SIZE, "noatime,dax=always"),
    ):
        sh(machine, f"mkdir -p /mnt/{name} && pmadmin create {name} {segment}")
        disk = sh(machine, f"pmadmin ramdisk add {name}").stdout.strip()
        sh(machine, f"{MKFS} {disk} && mount -o {options} {disk} /mnt/{name}")


def _run(machine: Machine, folder: str, how: str, keys: int, updates: int) -> dict[str, int]:
    place = f"{folder}/{how}"
    words = f"{place} {keys} {VALUE_BYTES} {updates} {how}"
    found = sh(machine, f"mkdir {place} && python3 /root/in_guest.py {words}").stdout
    sh(machine, f"rm -rf {place}")
    took: dict[str, int] = json.loads(found)
    return took


def _in_all(way: dict[str, int]) -> int:
    return way["memory_bytes"] + way["files_bytes"] + way["cached_bytes"]


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    ways = raw["ways"]
    base = ways[MEMORY]
    for name, way in ways.items():
        for key in ("memory_bytes", "files_bytes", "cached_bytes"):
            report.count(f"{name}, {key}", way[key], "B")
        footprint = round(_in_all(way) / _in_all(base), 3)
        report.result.add(f"{name}, footprint", footprint, "x", "counted")
        update_ns = way["updates_ns"] / raw["updates"]
        report.add(f"{name}, update_ns", round(update_ns), "ns")
        report.add(f"{name}, update", round(way["updates_ns"] / base["updates_ns"], 3), "x")
        if name == MEMORY:
            report.expect("memory: a server that is killed has lost its keys", way["keys"] == 0)
            continue
        report.add(f"{name}, back_ns", way["back_ns"], "ns")
        report.expect(f"{name}: all keys are back", way["keys"] == raw["keys"])
        report.expect(
            f"{name}: updates take longer than in memory alone",
            way["updates_ns"] > base["updates_ns"],
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    space, time = figure.subplots(1, 2)
    names = list(raw["ways"])
    below = [0.0] * len(names)
    for key, label in (
        ("memory_bytes", "the server's memory"),
        ("files_bytes", "its files in persistent memory"),
        ("cached_bytes", "the kernel's copies of these"),
    ):
        mb = [way[key] / 1e6 for way in raw["ways"].values()]
        space.bar(names, mb, bottom=below, label=label)
        below = [low + high for low, high in zip(below, mb, strict=True)]
    space.axhline(paper["footprint"] * _in_all(raw["ways"][MEMORY]) / 1e6, color="black",
                  linestyle=":", label="paper: twice")  # fmt: skip
    space.set(ylabel="MB")
    space.legend(frameon=False, fontsize=7)
    base = raw["ways"][MEMORY]["updates_ns"]
    time.bar(names, [way["updates_ns"] / base for way in raw["ways"].values()])
    time.set(ylabel="an update, in memory alone = 1")
    for axes in (space, time):
        axes.tick_params(axis="x", labelsize=7)

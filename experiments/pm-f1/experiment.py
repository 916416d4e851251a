# SPDX-License-Identifier: Apache-2.0 OR MIT
"""HP-UX Persistent Memory, failure recovery performance: see README.md."""

from __future__ import annotations

import json
import os
from typing import Any

from lab.bench.off2f import DISK_BYTES_PER_NS, READ_NS
from lab.experiment.run import Context, Report
from lab.machine import Machine
from lab.testbed.pm_guest import guest_with_region, load, sh

CI_MB = 25
MB = 100
WAYS = ("map", "read")


def measure(it: Context) -> dict[str, Any]:
    megabytes = CI_MB if it.is_ci else MB
    with guest_with_region(f"exp-pm-f1-{os.getpid()}", cpus=1, icount=True) as machine:
        found: dict[str, Any] = {"megabytes": megabytes, "boot_ns": _boot_ns(machine)}
        for name, (path, device) in _files(machine, megabytes).items():
            found[name] = {way: _take(machine, path, device, way) for way in WAYS}
    return found


def _boot_ns(machine: Machine) -> int:
    """When the guest's last service was started: the ssh server, in ticks of 10 ms."""
    stat = sh(machine, "cat /proc/$(pgrep -o dropbear)/stat").stdout
    return int(stat.rpartition(")")[2].split()[19]) * 10_000_000


def _files(machine: Machine, megabytes: int) -> dict[str, tuple[str, str]]:
    """Where the file is, and on which device."""
    load(machine, "format=1")
    files = {"disk": ("/root/data", "vda")}
    for name, options in (("pmramd", ""), ("dax", "-o dax=always")):
        sh(machine, f"pmadmin create {name} {megabytes + 20}M && mkdir -p /mnt/{name}")
        disk = sh(machine, f"pmadmin ramdisk add {name}").stdout.strip()
        sh(machine, f"mkfs.ext4 -q -b 4096 {disk} && mount {options} {disk} /mnt/{name}")
        device = disk.removeprefix("/dev/")
        sh(machine, f"echo 1 >/sys/block/{device}/queue/iostats")  # reads are counted
        files[name] = (f"/mnt/{name}/data", device)
    for path, _ in files.values():
        sh(machine, f"yes content | head -c {megabytes}000000 >{path} && sync")
    return files


def _take(machine: Machine, path: str, device: str, way: str) -> dict[str, int]:
    sh(machine, "sync; echo 3 >/proc/sys/vm/drop_caches")
    took: dict[str, int] = json.loads(
        sh(machine, f"python3 /root/pm-recover.py {path} {way} {device}").stdout
    )
    return took


def time_ns(name: str, took: dict[str, int]) -> float:
    if name != "disk":
        return took["wall_ns"]
    return took["cpu_ns"] + took["reads"] * READ_NS + took["bytes"] / DISK_BYTES_PER_NS


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    report.count("megabytes", raw["megabytes"], "MB")
    report.add("boot", raw["boot_ns"], "ns")
    sums = {took["sum"] for name in ("disk", "pmramd", "dax") for took in raw[name].values()}
    report.expect("each way finds the same", len(sums) == 1)
    for way in WAYS:
        ours = {name: time_ns(name, raw[name][way]) for name in ("disk", "pmramd", "dax")}
        for name, ns in ours.items():
            report.add(f"{name}_{way}", round(ns), "ns")
            share = ns / (ns + raw["boot_ns"])
            report.add(f"{name}_{way}_of_reboot", round(share, 4), "share")
        report.count(f"disk_{way}_reads", raw["disk"][way]["reads"], "reads")
        report.count(f"dax_{way}_reads", raw["dax"][way]["reads"], "reads")
        report.expect(f"{way}: persistent memory is faster", ours["dax"] < ours["disk"])
        report.expect(
            f"{way}: the gain is less than a reboot",
            ours["disk"] - ours["dax"] < raw["boot_ns"],
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for place, way in enumerate(WAYS):
        names = ("disk", "pmramd", "dax")
        times = [time_ns(name, raw[name][way]) / 1e6 for name in names]
        axes.bar([n + place * 0.4 for n in range(3)], times, 0.4, label=way)
        axes.set_xticks([n + 0.2 for n in range(3)], names)
    axes.axhline(raw["boot_ns"] / 1e6, color="gray", label="a boot")
    axes.set(ylabel="ms (modelled)", yscale="log")
    axes.legend(frameon=False)

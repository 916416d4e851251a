# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OFF2F, Figure 10: see README.md."""

from __future__ import annotations

import os
from typing import Any

from lab.bench.off2f import DISK_BYTES_PER_NS, PAPER_SIZES, READ_NS, Plan, modelled_ns, run_machine
from lab.experiment.run import Context, Report
from lab.messages import info

FIRST_BYTES = 64 << 10
WAYS = (
    "elf_disk",
    "elf_reset",
    "elf_cache",
    "dax_cold",
    "dax_warm",
    "off2f_cold",
    "off2f_reset",
    "off2f_warm",
    "off2f_dax_cold",
)
FREEBSD_LIKE = "freebsd_like"
# Disks of which a read takes longer: the paper does not name its own.
SLOWER_READ_NS = (500_000, 1_000_000, 3_000_000, 8_000_000)


def measure(it: Context) -> dict[str, Any]:
    sizes = PAPER_SIZES if it.is_ci else Plan().sizes
    name = f"exp-off-f10-{os.getpid()}"
    plan = Plan(sizes=sizes, runs=1 if it.is_ci else 3, machine=name, with_reset=True)
    return run_machine(plan, info)


def _bytes_of(name: str) -> int:
    return int(name[:-1]) << (20 if name.endswith("m") else 10)


def times_ns(rows: dict[str, Any], name: str) -> dict[str, int]:
    """Of one size, by way."""
    found = {way: modelled_ns(rows[way]) for way in WAYS}
    found[FREEBSD_LIKE] = _freebsd_like_ns(rows, name, READ_NS)
    return found


def _freebsd_like_ns(rows: dict[str, Any], name: str, read_ns: int) -> int:
    size = _bytes_of(name)
    reads = 1 + -(-max(0, size - FIRST_BYTES) // FIRST_BYTES)
    disk_ns = reads * read_ns + size / DISK_BYTES_PER_NS
    return int(rows["elf_cache"]["cpu_ns"]) + round(disk_ns)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    by_size = {name: times_ns(rows, name) for name, rows in raw.items()}
    for name, ours in by_size.items():
        for way, ns in ours.items():
            report.add(f"{way}_{name}", ns, "ns")
        for way in ("elf_disk", "off2f_cold"):
            report.count(f"{way}_reads_{name}", raw[name][way]["disk_reads"], "reads")
            report.count(f"{way}_bytes_{name}", raw[name][way]["disk_bytes"], "bytes")
        for cold, after in (("elf_disk", "off2f_cold"), ("elf_reset", "off2f_reset")):
            report.expect(f"{name}: {after} is faster than {cold}", ours[after] < ours[cold])
        dram = raw[name]["off2f_warm"]["text_dram_pages"]
        report.expect(f"{name}: no page of text in DRAM's page cache", dram == 0)
    first, last = list(by_size)[0], list(by_size)[-1]

    def rise(way: str) -> int:
        return by_size[last][way] - by_size[first][way]

    report.expect("OFF2F rises less with the size", rise("off2f_cold") < rise("elf_disk"))
    for read_ns in (READ_NS, *SLOWER_READ_NS):
        large, small = (_freebsd_like_ns(raw[name], name, read_ns) for name in ("96k", "64k"))
        which = "" if read_ns == READ_NS else f", a read takes {read_ns / 1e6:g} ms"
        report.add(f"freebsd_jump_ns{which}", large - small, "ns")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    by_size = {name: times_ns(rows, name) for name, rows in raw.items()}
    small = [name for name in by_size if name.endswith("k")]
    for way in ("elf_disk", FREEBSD_LIKE, "elf_cache", "dax_cold", "off2f_cold", "off2f_warm"):
        left.plot(small, [by_size[name][way] / 1e6 for name in small], marker="o", label=way)
        right.plot(
            [_bytes_of(name) for name in by_size],
            [ours[way] / 1e6 for ours in by_size.values()],
            marker="o",
        )
    left.set(xlabel="text (the paper's sizes)", ylabel="exec to exit, ms (modelled)", ylim=0)
    right.set(xlabel="bytes of text", xscale="log", yscale="log")
    left.legend(frameon=False, fontsize=7)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""HP-UX Persistent Memory, a database integrated with it: see README.md."""

from __future__ import annotations

import os
from typing import Any

from lab.experiment.run import Context, Experiment, Report
from lab.machine import Machine
from lab.setup.pm import Pm
from lab.setup.products import need
from lab.testbed.pm_guest import cut, guest_with_region, load, sh

# Its disks, and what requests to the machine's own take: the same rows, in the same places.
T1 = Experiment.load("pm-t1").module
ROWS, CI_ROWS = T1.ROWS, T1.CI_ROWS
DISK = "disk"
SEGMENT = "rows"
SEGMENT_BYTES = 4 << 20
# How pm-db keeps the rows (pm/guest/pm-db.c), where, and on which device. Those that the page
# cache alone has come last, so that nothing writes it back before the power goes.
WAYS = {
    "memory": ("memory", "-", "-"),
    "segment": ("segment", SEGMENT, "-"),
    **{name: ("sync", f"/mnt/{name}/rows", "-") for name in T1.DISKS},
    DISK: ("sync", "/root/rows.disk", "vda"),
    "cache": ("cache", "/root/rows.cache", "-"),
    "mapped": ("mapped", "/root/rows.mapped", "-"),
}
DURABLE = ("segment", "dax", "pmramd", DISK)
WRITE_BACK = ("cache", "mapped")
DOES = ("insert", "change")
COUNTS = ("wall_ns", "writes", "flushes")
# Volatile caches, for which each row is a line in the log of the machine's plugin.
CACHES, CACHED_ROWS = "wsp-c5528", 300
FLUSHES = {"flushed": "segment", "not flushed": "loose"}
# What this clock does not have: the time of a line until it is durable, and other work of a row.
LINE_NS = (10, 100, 300, 1000)
WORK_US = (1, 3, 10)


def measure(it: Context) -> dict[str, Any]:
    rows = CI_ROWS if it.is_ci else ROWS
    name = f"exp-pm-db-{os.getpid()}"
    with guest_with_region(name, cpus=1, icount=True) as machine:
        _prepare(machine)
        filled = {way: _fill(machine, way, rows) for way in WAYS}
        cut(machine)
        load(machine)
        _mount(machine)
        kept = {way: _look(machine, *WAYS[way][:2], rows) for way in (*DURABLE, *WRITE_BACK)}
    raw = {"rows": rows, "filled": filled, "kept": kept}
    return raw if it.is_ci else raw | {"caches": _with_caches(name)}


def _prepare(machine: Machine) -> None:
    machine.guest.put(need(Pm()).folder / "pm-db", "/root/pm-db")
    load(machine, "format=1")
    sh(machine, f"pmadmin create {SEGMENT} {SEGMENT_BYTES}")
    for name, (size, _) in T1.DISKS.items():
        sh(machine, f"mkdir -p /mnt/{name} && pmadmin create {name} {size}")
    _mount(machine, f"{T1.MKFS} $disk &&")
    sh(machine, "sync")


def _mount(machine: Machine, before: str = "") -> None:
    """The disks of the segments; *before* may make their file systems."""
    for name, (_, options) in T1.DISKS.items():
        sh(machine, f"disk=$(pmadmin ramdisk add {name}) && {before} "
                    f"mount -o {options} $disk /mnt/{name}")  # fmt: skip


def _numbers(machine: Machine, words: str, check: bool = True) -> dict[str, int]:
    lines = sh(machine, f"/root/pm-db {words}", check=check).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def _rows_of(way: str, rows: int) -> int:
    """A tenth on the machine's disk, whose requests are counted: QEMU's disk is slow."""
    return int(rows // T1.DISK_SHARE) if way == DISK else rows


def _fill(machine: Machine, way: str, rows: int) -> dict[str, int]:
    how, place, device = WAYS[way]
    return _numbers(machine, f"fill {how} {place} {device} {_rows_of(way, rows)}")


def _look(machine: Machine, how: str, place: str, rows: int) -> dict[str, int]:
    """What the next program finds; a table that it cannot use has no row."""
    return _numbers(machine, f"look {how} {place} {rows}", check=False) or {"rows": 0}


def _with_caches(name: str) -> dict[str, dict[str, int]]:
    """Rows after a cut on a machine whose caches lose what was not flushed."""
    with guest_with_region(f"{name}-c", cpus=1, caches=CACHES) as machine:
        machine.guest.put(need(Pm()).folder / "pm-db", "/root/pm-db")
        load(machine, "format=1")
        for how in FLUSHES.values():
            sh(machine, f"pmadmin create {how} {SEGMENT_BYTES}")
        sh(machine, "sync")
        for how in FLUSHES.values():
            _numbers(machine, f"fill {how} {how} - {CACHED_ROWS}")
        cut(machine)
        load(machine)
        return {name: _look(machine, how, how, CACHED_ROWS) for name, how in FLUSHES.items()}


def _counts(raw: dict[str, Any], does: str) -> dict[str, dict[str, int]]:
    """By way, as pm-t1 has them."""
    return {
        way: {count: found[f"{does}_{count}"] for count in COUNTS}
        for way, found in raw["filled"].items()
    }


def row_ns(raw: dict[str, Any], does: str, way: str, flush_ns: int = T1.FLUSH_NS) -> float:
    """A row is durable after it; of a disk its requests are counted (experiments/pm-t1)."""
    whole_ns: float = T1.time_ns(_counts(raw, does), way, flush_ns)
    return whole_ns / int(raw["rows"])


def _lines_per_row(raw: dict[str, Any]) -> float:
    return float(raw["filled"]["segment"]["lines"] / (raw["rows"] * len(DOES)))


def _judge_times(raw: dict[str, Any], does: str, report: Report) -> None:
    ours = {way: row_ns(raw, does, way) for way in WAYS}
    base, segment = ours["memory"], ours["segment"]
    for way, ns in ours.items():
        report.add(f"{way}_{does}_row", round(ns), "ns")
    more = f"segment_{does}_more_than_memory"
    report.add(more, round(segment / base - 1, 4), "share")
    for work_us in WORK_US:
        share = (segment - base) / (base + work_us * 1000)
        report.add(f"{more}, {work_us} us of other work", round(share, 4), "share")
    for line_ns in LINE_NS:
        slow_ns = segment + _lines_per_row(raw) * line_ns
        report.add(f"segment_{does}_row, a line takes {line_ns} ns", round(slow_ns), "ns")
    for name, theirs in (("disk", ours[DISK]), ("protected_disk", row_ns(raw, does, DISK, 0)),
                         ("pmramd", ours["pmramd"]), ("dax", ours["dax"]),
                         ("cache", ours["cache"])):  # fmt: skip
        report.add(f"segment_{does}_saved_of_{name}", round(1 - segment / theirs, 4), "share")
    # Until a line takes as long as this, a segment is faster than the disk interface.
    spare_ns = (ours["pmramd"] - segment) / max(_lines_per_row(raw), 1)
    report.add(f"{does}_line_for_pmramd", round(spare_ns), "ns")
    for other in ("pmramd", "dax", DISK):
        report.expect(f"{does}: a segment is faster than {other}", segment < ours[other])
    report.expect(f"{does}: durable in a segment is faster than a file that the page cache has",
                  segment < ours["cache"])  # fmt: skip


def _judge_rows(raw: dict[str, Any], report: Report) -> None:
    for way, found in raw["filled"].items():
        rows = _rows_of(way, raw["rows"])
        whole = (found["rows"], found["changed"], found["wrong"]) == (rows, rows, 0)
        report.expect(f"{way}: the program has all rows", whole)
    for way, found in raw["kept"].items():
        rows = _rows_of(way, raw["rows"])
        report.count(f"{way}_rows_kept", found["rows"], "rows")
        is_whole = found["rows"] == found.get("changed") == rows and found["wrong"] == 0
        if way in DURABLE:
            report.add(f"{way}_open", found.get("open_ns", 0), "ns")
            report.expect(f"{way}: after a cut each row is there, as it was changed", is_whole)
        else:
            report.expect(f"{way}: what only the page cache had is lost", not is_whole)
    opened = {way: raw["kept"][way].get("open_ns", 0) for way in DURABLE}
    report.expect("a segment is open sooner than a log of the same rows is read",
                  opened["segment"] < min(opened["pmramd"], opened["dax"]))  # fmt: skip
    report.expect("each row of a segment is flushed", _lines_per_row(raw) >= 1)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    report.count("rows", raw["rows"], "rows")
    report.result.add("lines_per_row", round(_lines_per_row(raw), 2), "lines", "counted")
    for count in ("writes", "flushes"):
        report.count(f"disk_{count}", raw["filled"][DISK][f"insert_{count}"], count)
    for does in DOES:
        _judge_times(raw, does, report)
    _judge_rows(raw, report)
    if "caches" in raw:
        kept = {name: found["rows"] for name, found in raw["caches"].items()}
        for name, rows in kept.items():
            report.count(f"with volatile caches, {name}, rows_kept", rows, "rows")
        found = raw["caches"]["flushed"]
        report.expect("with volatile caches each row that was flushed is there", (
            found["rows"] == found.get("changed") == CACHED_ROWS and found["wrong"] == 0
        ))  # fmt: skip
        report.expect("with volatile caches rows that were not flushed are lost",
                      raw["caches"]["not flushed"].get("changed", 0) < CACHED_ROWS)  # fmt: skip


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    time, kept = figure.subplots(1, 2)
    shown = [way for way in WAYS if way != "plain"]  # a disk without latency is no way of its own
    for place, does in enumerate(DOES):
        times = [row_ns(raw, does, way) for way in shown]
        time.bar([n + place * 0.4 for n in range(len(shown))], times, 0.4, label=does)
    time.set_xticks([n + 0.2 for n in range(len(shown))], shown)
    limit_ns = row_ns(raw, "insert", "memory") * (1 + paper["more_than_not_durable"])
    time.axhline(
        limit_ns,
        color="black",
        linestyle=":",
        label=f"memory, and {paper['more_than_not_durable']:.0%}",
    )
    time.set(ylabel="ns a row (modelled)", yscale="log")
    time.legend(frameon=False, fontsize=7)
    names = list(raw["kept"])
    shares = [raw["kept"][way]["rows"] / _rows_of(way, raw["rows"]) for way in names]
    kept.bar(names, shares)
    kept.set(ylabel="of the rows, there after a cut (counted)", ylim=(0, 1.1))
    for axes in (time, kept):
        axes.tick_params(axis="x", labelsize=7)

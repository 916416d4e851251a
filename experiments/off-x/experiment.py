# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OFF2F, sections I, V-B and VII, real programs: see README.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from lab.bench.off2f import CHECKPOINT, Way, best, modelled_ns
from lab.experiment import census
from lab.experiment.census import Program
from lab.experiment.run import Context, Report
from lab.machine import Machine
from lab.testbed import off2f_guest
from lab.testbed.off2f_guest import STORE, convert, forget, guest_with_store
from lab.testbed.pm_guest import sh

# FreeBSD, bin/Makefile and what is linked to its programs; its sh is Debian's dash.
FREEBSD_BIN = """
[ cat chflags chio chmod cp csh dash date dd df domainname echo ed expr freebsd-version getfacl
hostname kenv kill link ln ls mkdir mv pax pgrep pkill ps pwait pwd rcp realpath red rm rmail rmdir
setfacl sh sleep stty sync tcsh test unlink uuidgen
"""
OF_BIN = ", programs of FreeBSD's /bin"
BOTH = ", both in text"
LOADED = ", of what is loaded and with zeroed data"
WITHOUT = (1, 3, 10)  # programs with most data are left out
Counted = Callable[[Program], tuple[int, int]]
# Text and data of a program, as off2f scan has them and as other linkers do: FreeBSD 11 has two
# segments, and programs that are not relocated.
LAYOUTS: dict[str, Counted] = {
    "": lambda p: (p.text_bytes, p.data_bytes),
    ", read-only data in text": lambda p: (p.text_bytes + p.read_only_bytes, p.data_bytes),
    ", relocated constants in text": lambda p: (
        p.text_bytes + p.relocated_bytes, p.data_bytes - p.relocated_bytes
    ),
    BOTH: lambda p: (
        p.text_bytes + p.read_only_bytes + p.relocated_bytes, p.data_bytes - p.relocated_bytes
    ),
}  # fmt: skip
# Bytes of data, and of what they are a share of.
SHARES: dict[str, Counted] = {
    "": lambda p: (p.data_bytes, p.file_bytes),
    ", of what is loaded": lambda p: (p.data_bytes, p.loaded_bytes),
    ", with zeroed data": lambda p: (p.data_bytes + p.zeroed_bytes, p.file_bytes),
    LOADED: lambda p: (p.data_bytes + p.zeroed_bytes, p.loaded_bytes),
}

SOURCE = "/root/start.c"
FUNCTIONS = 20
# The ELF, what it does when it only starts, and when it does something.
PROGRAMS = {
    "redis-server": (
        "/usr/bin/redis-server",
        "--version",
        # All of a server's start: it ends where it would listen.
        "--port 0 --save '' --logfile /dev/null",
    ),
    "sqlite3": (
        "/usr/bin/sqlite3",
        "-version",
        ":memory: 'with recursive c(n) as (select 1 union all select n + 1 from c where n < 500)"
        " select sum(n), count(distinct n % 7), group_concat(hex(n)) from c'",
    ),
    "cc1": ("$(gcc -print-prog-name=cc1)", "-quiet /dev/null -o -", f"-quiet -O2 {SOURCE} -o -"),
    "busybox": ("/root/busybox", "true", f"md5sum {SOURCE}"),
}
STATIC = "busybox"
DOES = ("start", "work")
FOLDERS = {"elf": "/root/e", "off2f": "/root/o", "off2f_bound": "/root/b"}


def measure_starts(runs: int) -> dict[str, Any]:
    """Each program as ELF and as OFF2F on one machine, by the clock of `rem bench off2f`."""
    body = "".join(f"int f{n}(int a) {{ return a * {n} + (a > {n} ? f(a) : 0); }}\\n"
                   for n in range(FUNCTIONS))  # fmt: skip
    name = f"exp-off-x-{os.getpid()}"
    with guest_with_store(name, cpus=1, icount=True, busybox=True) as machine:
        sh(machine, f"printf 'int f(int);\\n{body}' >{SOURCE}")
        for program, (elf, *_) in PROGRAMS.items():
            _prepare(machine, program, elf)
        sh(machine, CHECKPOINT)
        about = sh(machine, "/root/busybox | head -n 1").stdout.strip()
        rows = {
            program: {
                does: _run(machine, program, words, runs)
                for does, words in zip(DOES, both, strict=True)
            }
            for program, (_, *both) in PROGRAMS.items()
        }
    return {"busybox": about, "rows": rows}


def _prepare(machine: Machine, program: str, elf: str) -> None:
    """A copy of each kind in a folder of its own, so that all are found by as many reads."""
    places = {kind: f"{folder}/{program}" for kind, folder in FOLDERS.items()}
    sh(machine, f"mkdir -p {FOLDERS['elf']} && cp -p {elf} {places['elf']}")
    for kind in ("off2f", "off2f_bound"):
        convert(machine, places["elf"], places[kind])
    sh(machine, f"off2f bind {places['off2f_bound']} --store {STORE}")


def _run(machine: Machine, program: str, words: str, runs: int) -> dict[str, Any]:
    """Counts of the best run of each kind; what each printed; where its text was after one run."""
    found: dict[str, Any] = {}
    for kind, folder in FOLDERS.items():
        command = f"{folder}/{program} {words}"
        for state in ("cold", "warm"):
            way = Way(command, cold=state == "cold")
            found[f"{kind}_{state}"] = best([_sample(machine, way) for _ in range(runs)])
        forget(machine)
        found[f"{kind}_text"] = off2f_guest.measure(machine, command, text=True)
        # A program may print its own name, of which the folder differs.
        printed = f"{{ {command} 2>&1; echo $?; }} | sed s,{folder}/,, | sha256sum"
        found[f"{kind}_printed"] = sh(machine, printed).stdout.split()[0]
    return found


def _sample(machine: Machine, way: Way) -> dict[str, int]:
    """One run; a warm one is never the first of a kind."""
    if way.cold:
        forget(machine)
        off2f_guest.measure(machine, "/bin/true")  # off2f-run's own pages are cached again
    return off2f_guest.measure(machine, way.path)


def measure_census() -> dict[str, Any]:
    """Of the programs of the guests' root, which is made of Debian packages alone."""
    tree = census.guest_tree()
    folder = tree / "usr" / "bin"
    scan = census.scanned(folder)
    return {
        "debian": (tree / "etc" / "debian_version").read_text(encoding="utf-8").strip(),
        "packages": census.packages(tree),
        "scan": scan,
        "programs": [asdict(program) for program in census.programs(folder)],
    }


def measure(it: Context) -> dict[str, Any]:
    return {"census": measure_census(), "starts": measure_starts(1 if it.is_ci else 3)}


def text_to_data(programs: Iterable[Program], layout: Counted = LAYOUTS[""]) -> float:
    """Bytes of all text over bytes of all data; section V-B, of FreeBSD's /bin."""
    text_bytes = data_bytes = 0
    for text, data in map(layout, programs):
        text_bytes += text
        data_bytes += data
    return round(text_bytes / max(data_bytes, 1), 2)


def much_data(programs: Iterable[Program], of: Counted = SHARES[""]) -> int:
    """Programs of which data is a tenth or more; section I."""
    return sum(census.is_much(*of(program)) for program in programs)


def ratios(programs: list[Program]) -> dict[str, float]:
    """Text to data of all, in other layouts, of a part of them."""
    found = {name: text_to_data(programs, layout) for name, layout in LAYOUTS.items()}
    by_data = sorted(programs, key=lambda p: p.data_bytes, reverse=True)
    for count in WITHOUT:
        found[f", without the {count} with most data"] = text_to_data(by_data[count:])
    found[OF_BIN] = text_to_data(p for p in programs if p.name in FREEBSD_BIN.split())
    return found


def _judge_census(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    programs = [Program(**row) for row in raw["programs"]]
    scan = raw["scan"]
    words = {"debian": raw["debian"], "packages_digest": census.digest_of(raw["packages"].items())}
    for name, word in words.items():
        report.result.add(name, word, "", "counted")
    report.count("packages", len(raw["packages"]), "packages")
    for name, unit in (("elf_files", "files"), ("convert", "files"), ("no_elf", "files"),
                       ("dram_saved_pages", "pages"), ("disk_bytes_saved", "bytes")):  # fmt: skip
        report.count(name, round(scan[name]), unit)
    report.result.add("convert_percent", round(scan["convert_percent"], 1), "%", "counted")
    of_bin = sum(p.name in FREEBSD_BIN.split() for p in programs)
    report.count("programs_of_freebsd_bin", of_bin, "files")
    found = ratios(programs)
    for name, ratio in found.items():
        report.result.add(f"text_to_data{name}", ratio, "ratio", "counted")
    for name, of in SHARES.items():
        report.count(f"much_data{name}", much_data(programs, of), "files")
    refused = sum(scan["refused"].values())
    report.expect("each ELF file converts or is refused with a reason",
                  len(programs) == scan["convert"] + refused)  # fmt: skip
    report.expect("most ELF files convert", scan["convert_percent"] > 50)
    _judge_sweep(programs, found, raw["scan"], paper, report)


def _judge_sweep(
    programs: list[Program],
    found: dict[str, float],
    scan: dict[str, Any],
    paper: dict[str, Any],
    report: Report,
) -> None:
    """That the sweep counts the same files, and that layout is what it shows."""
    ours = {
        "elf_files": len(programs),
        "text_bytes": sum(p.text_bytes for p in programs),
        "data_bytes": sum(p.data_bytes for p in programs),
        "much_data": much_data(programs),
    }
    report.expect(
        "the sweep's programs, text and data are those of off2f scan",
        ours == {name: scan[name] for name in ours},
    )
    report.expect(
        "the paper's ratio is between Debian's layout and FreeBSD's",
        found[""] < paper["text_to_data"] < found[BOTH],
    )
    most = paper["much_data"] * (1 - paper["tolerance_percent"] / 100)
    report.expect(
        "of what is loaded, with zeroed data, as many programs have much data as the paper's",
        much_data(programs, SHARES[LOADED]) >= most,
    )


def _faults(sample: dict[str, int]) -> int:
    return sample["minor_faults"] + sample["major_faults"]


def _judge_start(name: str, row: dict[str, Any], report: Report) -> None:
    """One program doing one thing."""
    for kind in FOLDERS:
        for state in ("cold", "warm"):
            report.add(f"{name}, {kind}_{state}", modelled_ns(row[f"{kind}_{state}"]), "ns")
            report.count(f"{name}, {kind}_{state}_faults", _faults(row[f"{kind}_{state}"]),
                         "faults")  # fmt: skip
        cold = row[f"{kind}_cold"]
        report.count(f"{name}, {kind}_cold_waits", cold["major_faults"], "faults")
        report.count(f"{name}, {kind}_cold_reads", cold["disk_reads"], "reads")
        report.count(f"{name}, {kind}_cold_bytes", cold["disk_bytes"], "bytes")
        report.count(f"{name}, {kind}_dram_pages", row[f"{kind}_text"]["text_dram_pages"], "pages")
    elf, ours = row["elf_cold"], row["off2f_cold"]
    report.result.add(f"{name}, off2f_cold_vs_elf", round(modelled_ns(ours) / modelled_ns(elf), 3),
                      "ratio", "modelled")  # fmt: skip
    in_dram = [row[f"{kind}_text"]["text_dram_pages"] for kind in ("elf", "off2f")]
    report.count(f"{name}, dram_saved_pages", in_dram[0] - in_dram[1], "pages")
    report.expect(f"{name}: OFF2F is faster than the ELF from the disk",
                  modelled_ns(ours) < modelled_ns(elf))  # fmt: skip
    report.expect(f"{name}: less is read from the disk", ours["disk_bytes"] < elf["disk_bytes"])
    # A small program's text comes with its data: no fault of its own waits for it.
    report.expect(f"{name}: no more faults wait for the disk",
                  ours["major_faults"] <= elf["major_faults"])  # fmt: skip
    bound = row["off2f_bound_cold"]
    report.expect(f"{name}: fewer faults wait for the disk if the ABC is in NVRAM, too",
                  bound["major_faults"] < elf["major_faults"])  # fmt: skip
    report.expect(f"{name}: fewer pages of text are in DRAM", in_dram[1] < in_dram[0])
    printed = {row[f"{kind}_printed"] for kind in FOLDERS}
    report.expect(f"{name}: all print the same", len(printed) == 1)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    _judge_census(raw["census"], paper, report)
    report.result.add("busybox", raw["starts"]["busybox"], "", "counted")
    for program, rows in raw["starts"]["rows"].items():
        for does, row in rows.items():
            _judge_start(f"{program}, {does}", row, report)
            if program == STATIC:
                report.expect(f"{program}, {does}: no page of a static program's text is in DRAM",
                              row["off2f_text"]["text_dram_pages"] == 0)  # fmt: skip


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    found = ratios([Program(**row) for row in raw["census"]["programs"]])
    labels = [name.removeprefix(", ") or "as off2f scan counts" for name in found]
    left.barh(labels, list(found.values()))
    left.axvline(paper["text_to_data"], color="black", linestyle=":", label="paper, of /bin")
    left.set(xlabel="text over data, of all programs (counted)")
    left.invert_yaxis()
    left.legend(frameon=False, fontsize=7)
    rows = {f"{program}\n{does}": row for program, both in raw["starts"]["rows"].items()
            for does, row in both.items()}  # fmt: skip
    for place, kind in enumerate(FOLDERS):
        times = [modelled_ns(row[f"{kind}_cold"]) / 1e6 for row in rows.values()]
        right.bar([n + place * 0.27 for n in range(len(rows))], times, 0.27, label=kind)
    right.set_xticks([n + 0.27 for n in range(len(rows))], list(rows))
    right.set(ylabel="exec to exit, cold, ms (modelled)", yscale="log")
    right.legend(frameon=False, fontsize=7)
    for axes in (left, right):
        axes.tick_params(labelsize=6)

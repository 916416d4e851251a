# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cost of a start as OFF2F and as ELF, from exec to exit: `rem bench off2f`.

The paper's program (its text is NOPs, each executed once) in each size, one CPU under icount: its
CPU time is instructions, 1 ns each. The disk is added, as this clock does not include it: each
counted read costs READ_NS, each byte its share of DISK_BYTES_PER_NS. Memory costs nothing extra:
NVRAM is as fast as DRAM, as in the paper.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from lab.machine import Machine
from lab.parts import part_number
from lab.result import Result
from lab.setup.off2f import Off2fTool
from lab.setup.products import need
from lab.testbed.off2f_guest import NVM, STORE, convert, forget, guest_with_store, measure, mount
from lab.testbed.pm_guest import reset, sh

MACHINE = f"bench-off2f-{os.getpid()}"
PAPER_SIZES = tuple(n << 10 for n in (32, 64, 96, 128))
BOUND = "/root/b"
LARGER_SIZES = (1 << 20, 4 << 20, 16 << 20, 64 << 20)
# A read of 4 KiB from an NVMe disk of NAND, one in flight, and its bandwidth.
READ_NS = int(part_number("nvme", "read_ns"))
DISK_BYTES_PER_NS = part_number("nvme", "bytes_per_ns")
WARM_VS_CACHE_MAX = 1.02
# For small texts, where the kernel's own work varies by several percent: the minimum is used.
MORE_RUNS = 4
CONVERT_MAX = 1.5  # times hashing and copying
EXT4_IOC_CHECKPOINT = 0x4004662B
CHECKPOINT = (
    "sync; python3 -c 'import fcntl, os;"
    f' fcntl.ioctl(os.open("/", os.O_RDONLY), {EXT4_IOC_CHECKPOINT}, bytes(4))\''
)


@dataclass(frozen=True)
class Plan:
    sizes: tuple[int, ...] = PAPER_SIZES + LARGER_SIZES
    runs: int = 3
    machine: str = MACHINE
    with_reset: bool = False


@dataclass
class Way:
    """A kind of file, and whether caches are dropped before each run.

    Each kind has its own folder below one in which off2f-run was just found: if only one of their
    folders had been read before, they would differ by that read.
    """

    path: str
    cold: bool
    samples: list[dict[str, int]] = field(default_factory=list)


def modelled_ns(sample: dict[str, int]) -> int:
    disk_ns = sample["disk_reads"] * READ_NS + sample["disk_bytes"] / DISK_BYTES_PER_NS
    return sample["cpu_ns"] + round(disk_ns)


def best(samples: list[dict[str, int]]) -> dict[str, int]:
    """Return the run with the fewest timer ticks."""
    return min(samples, key=modelled_ns)


def name_of(text_bytes: int) -> str:
    return f"{text_bytes >> 20}m" if text_bytes >= 1 << 20 else f"{text_bytes >> 10}k"


def ways(text_bytes: int) -> dict[str, Way]:
    name = name_of(text_bytes)
    return {
        "elf_disk": Way(f"/root/e/nops-{name}", cold=True),
        "elf_cache": Way(f"/root/e/nops-{name}", cold=False),
        "dax_cold": Way(f"{NVM}/elf/nops-{name}", cold=True),
        "dax_warm": Way(f"{NVM}/elf/nops-{name}", cold=False),
        "off2f_cold": Way(f"/root/o/nops-{name}", cold=True),
        "off2f_warm": Way(f"/root/o/nops-{name}", cold=False),
        # A copy of ABC in NVRAM mounted over it: nothing is read from the disk.
        "off2f_bound_cold": Way(f"{BOUND}/nops-{name}", cold=True),
        # ABC in NVRAM, too, like the peer's whole ELF.
        "off2f_dax_cold": Way(f"{NVM}/o/nops-{name}", cold=True),
    }


TRACED = ("elf_cache", "off2f_warm")  # with a traced run


def prepare(machine: Machine, text_bytes: int) -> None:
    name = name_of(text_bytes)
    elf = f"/root/e/nops-{name}"
    sh(machine, f"mkdir -p /root/e && python3 /root/off2f-nops.py {text_bytes} {elf}")
    sh(machine, f"mkdir -p {NVM}/elf && cp {elf} {NVM}/elf/")
    for folder in ("/root/o", f"{NVM}/o", BOUND):
        convert(machine, elf, f"{folder}/nops-{name}")
    sh(machine, f"off2f bind {BOUND}/nops-{name} --store {STORE}")
    # Data that is still in the journal would not be dropped.
    sh(machine, CHECKPOINT)


def run_size(machine: Machine, text_bytes: int, runs: int) -> dict[str, dict[str, int]]:
    """Return the best run of each kind, and for some the text's pages by place."""
    found = {}
    for name, way in ways(text_bytes).items():
        if not way.cold:
            measure(machine, way.path)
        for _ in range(runs * (MORE_RUNS if text_bytes <= max(PAPER_SIZES) else 1)):
            if way.cold:
                forget(machine)
                measure(machine, "/bin/true")  # off2f-run's own pages are cached again
            way.samples.append(measure(machine, way.path))
        found[name] = best(way.samples)
        if name in TRACED:
            found[name] |= measure(machine, way.path, text=True)
    return found


def run_machine(plan: Plan, print_line: Callable[[str], None]) -> dict[str, Any]:
    """Run all sizes; return counters by size and kind."""
    found: dict[str, Any] = {}
    with guest_with_store(plan.machine, cpus=1, icount=True) as machine:
        for size in plan.sizes:
            print_line(f"text of {name_of(size)}")
            prepare(machine, size)
            found[name_of(size)] = run_size(machine, size, plan.runs)
        if plan.with_reset:
            print_line("after a reset")
            reset(machine, "b")
            mount(machine)
            measure(machine, "/bin/true")
            for size in plan.sizes:
                for way, path in (("elf_reset", "/root/e"), ("off2f_reset", "/root/o")):
                    sample = measure(machine, f"{path}/nops-{name_of(size)}")
                    found[name_of(size)][way] = sample
    return found


def convert_s(tool: Path, elf: Path, folder: Path) -> float:
    """CPU time of `off2f convert`, user's and kernel's."""
    words: list[str | Path] = [tool, "convert", elf, "--abc", folder / "abc"]
    before = os.times()
    subprocess.run([*words, "--xyz", folder / "xyz"], check=True)
    after = os.times()
    user_s = after.children_user - before.children_user
    return user_s + after.children_system - before.children_system


def hash_and_copy_s(elf: Path, folder: Path) -> float:
    """CPU time of the least that a conversion has to do: read, hash and write all bytes."""
    begin_s = time.process_time()
    with elf.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    shutil.copyfile(elf, folder / "copy")
    return time.process_time() - begin_s


def convert_ratios(tool: Path, folder: Path, rounds: int = 7) -> tuple[list[float], float]:
    """CPU time of a conversion over that of hashing and copying its ELF, by round, in turn; and its
    best rate, in MB of ELF per second of CPU.
    """
    elf = folder / "large"
    elf.write_bytes(large_elf())
    ours_s, least_s = [], []
    for _ in range(rounds):
        ours_s.append(convert_s(tool, elf, folder))
        least_s.append(hash_and_copy_s(elf, folder))
    ratios = [ours / max(least, 0.01) for ours, least in zip(ours_s, least_s, strict=True)]
    return ratios, elf.stat().st_size / 1e6 / max(min(ours_s), 0.01)


def large_elf() -> bytes:
    """Return 256 MiB: a program of this machine, padded with zeros."""
    return Path("/proc/self/exe").read_bytes().ljust(256 << 20, b"\0")


def ratios(found: dict[str, Any], result: Result) -> None:
    """Add ratios of all sizes, and the worst of them."""
    pairs = {
        "cold_vs_elf_disk": ("off2f_cold", "elf_disk"),
        "warm_vs_elf_cache": ("off2f_warm", "elf_cache"),
        "cold_vs_ext4_dax": ("off2f_bound_cold", "dax_cold"),
        "cold_vs_ext4_dax_unbound": ("off2f_cold", "dax_cold"),
        "cold_vs_ext4_dax_same_place": ("off2f_dax_cold", "dax_cold"),
        "warm_vs_ext4_dax": ("off2f_warm", "dax_warm"),
    }
    for name, (ours, theirs) in pairs.items():
        each = {
            size: round(modelled_ns(rows[ours]) / modelled_ns(rows[theirs]), 3)
            for size, rows in found.items()
        }
        result.add(name, max(each.values()), "ratio", "modelled")
        for size, ratio in each.items():
            result.add(f"{name}_{size}", ratio, "ratio", "modelled")


def counts(found: dict[str, Any], result: Result) -> None:
    in_dram = [rows["off2f_warm"]["text_dram_pages"] for rows in found.values()]
    result.add("text_dram_pages", sum(in_dram), "pages", "counted")
    for size, rows in found.items():
        result.add(f"elf_text_dram_pages_{size}", rows["elf_cache"]["text_dram_pages"], "pages",
                   "counted")  # fmt: skip
        for way in ("elf_disk", "off2f_cold", "off2f_bound_cold"):
            result.add(f"{way}_reads_{size}", rows[way]["disk_reads"], "reads", "counted")
            result.add(f"{way}_bytes_{size}", rows[way]["disk_bytes"], "bytes", "counted")
        for way in ("elf_cache", "dax_warm", "off2f_warm"):
            result.add(f"{way}_faults_{size}", rows[way]["minor_faults"], "faults", "counted")
            result.add(f"{way}_{size}", rows[way]["cpu_ns"], "ns", "modelled")


def run(plan: Plan, print_line: Callable[[str], None]) -> tuple[Result, list[str]]:
    """Return the figures, and the missed requirements."""
    result = Result("bench-off2f")
    found = run_machine(plan, print_line)
    result.add("disk", f"{READ_NS} ns a read, {DISK_BYTES_PER_NS} bytes/ns", "", "modelled")
    ratios(found, result)
    counts(found, result)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        ratios_, rate = convert_ratios(need(Off2fTool()), Path(folder))
    result.add("convert_vs_hash_and_copy", round(median(ratios_), 2), "x", "native")
    result.add("convert_spread", round(max(ratios_) / min(ratios_), 2), "x", "native")
    result.add("convert_mb_per_cpu_s", round(rate), "MB/s", "native")
    missed = required(result)
    result.ok = not missed
    return result, missed


def required(result: Result) -> list[str]:
    limits = {
        "cold_vs_elf_disk": 1.0,
        "warm_vs_elf_cache": WARM_VS_CACHE_MAX,
        "cold_vs_ext4_dax": 1.0,
        "text_dram_pages": 0,
        "convert_vs_hash_and_copy": CONVERT_MAX,
    }
    missed = []
    for name, limit in limits.items():
        value = result.figures[name].value
        assert isinstance(value, int | float)
        if value > limit:
            missed.append(f"{name} is {value}: at most {limit} is required")
    return missed

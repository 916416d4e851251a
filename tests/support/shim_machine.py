# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A small machine for the memtype= tests: SeaBIOS, DRAM and NVRAM kept in files, the test shim.

The DRAM is a shared file, so that its content can be checked when QEMU has ended: the shim fills
it with poison before the kernel runs, and `Boot.broken_pages` are those that no longer hold it.
Both sides have the same POISON numbers (tests/shim/main.c).
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab.setup import newc
from lab.setup.packages import BUSYBOX

SHIM_DIR = Path(__file__).parent.parent / "shim"
PAGE_BYTES = 4096
POISON_FACTOR = 0x9E3779B97F4A7C15
POISON_SALT = 0x52454D414E454E43
NVRAM_START = 0x1_0000_0000
"""The address of the first NVDIMM if DRAM ends below 2 GiB."""

MIB = 1 << 20
# On a busy host a vCPU may get no ticks for so long that the kernel's test of its timer fails.
BASE_CMDLINE = "console=ttyS0 panic=-1 no_timer_check"
E820_PMEM = 7
E820_PRAM = 12
STOPPED = re.compile(rb"System halted|end Kernel panic|SHIM: stop")
"""The end of the console if the guest will never power itself off."""


@dataclass(frozen=True)
class Range:
    """Physical addresses, excluding the end."""

    start: int
    end: int
    name: str = ""

    def pages(self) -> int:
        return (self.end - self.start) // PAGE_BYTES

    def within(self, outer: Range) -> bool:
        return outer.start <= self.start and self.end <= outer.end

    def overlaps(self, other: Range) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Machine:
    """The machine. `map_entries` are (start, bytes, e820 type), added by the shim."""

    kernel: Path
    shim: Path | None
    work_dir: Path
    initrd: Path
    cmdline: str = ""
    map_entries: tuple[tuple[int, int, int], ...] = ()
    dram_bytes: int = 256 * MIB
    nvram_bytes: tuple[int, ...] = (512 * MIB,)
    cpus: int = 2
    numa: bool = False
    extra: tuple[str, ...] = ()
    budget_s: int = 240
    """Host time; ample, as builds and tests share the cores."""


@dataclass(frozen=True)
class Boot:
    """The result of a boot. `powered_off`: the guest ended by itself, its workload done.

    `console` is COM1, the output of shim and kernel; `sections` is the output of tests/shim/init
    on COM2, by name.
    """

    console: str
    powered_off: bool
    sections: dict[str, list[str]]
    broken_pages: list[int] = field(default_factory=list)
    """Addresses of the poisoned pages that no longer hold their poison."""

    def shim_ranges(self, what: str) -> list[Range]:
        """The shim's output: firmware, added, keep, poison."""
        return _shim_ranges(self.console, what)

    def iomem(self, name: str) -> list[Range]:
        """The entries of /proc/iomem with this name, at any depth."""
        found = re.findall(
            rf"^\s*(\w+)-(\w+) : {re.escape(name)}$", "\n".join(self.sections["iomem"]), re.M
        )
        return [Range(int(start, 16), int(end, 16) + 1, name) for start, end in found]

    def low_dram(self) -> list[Range]:
        """What the kernel reports to use of the DRAM that it must not use."""
        found = re.findall(r"memtype: DRAM in use: \[mem 0x(\w+)-0x(\w+)\] (.*)", self.console)
        return [Range(int(s, 16), int(e, 16) + 1, name.strip()) for s, e, name in found]


BootOne = Callable[..., Boot]
"""The fixture `boot_one`."""


def _broken_pages(dram: Path, poisoned: list[Range]) -> list[int]:
    broken = []
    with (
        dram.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory,
    ):
        for part in poisoned:
            for page in range(part.start, part.end, PAGE_BYTES):
                word = (page * POISON_FACTOR ^ POISON_SALT) & (2**64 - 1)
                expected = struct.pack("<Q", word) * (PAGE_BYTES // 8)
                if memory[page : page + PAGE_BYTES] != expected:
                    broken.append(page)
    return broken


def _shim_ranges(console: str, what: str) -> list[Range]:
    found = re.findall(rf"^SHIM: {what} 0x(\w+) 0x(\w+) (.*)$", console, re.M)
    return [Range(int(start, 16), int(end, 16), name.strip()) for start, end, name in found]


def build_shim(out_dir: Path) -> Path:
    out_dir.mkdir(parents=True, exist_ok=True)
    subprocess.run(["make", "-s", "-C", str(SHIM_DIR), f"OUT={out_dir}"], check=True, timeout=60)
    return out_dir / "shim.bin"


def build_initrd(to: Path, extra_scripts: dict[str, str] | None = None) -> Path:
    """A root of busybox and tests/shim/init, as an uncompressed newc archive."""
    files = {
        "bin/busybox": BUSYBOX.read_bytes(),
        "init": (SHIM_DIR / "init").read_bytes(),
        **{name: text.encode() for name, text in (extra_scripts or {}).items()},
    }
    to.write_bytes(newc.archive(files))
    return to


def _memory_options(machine: Machine, dram: Path) -> list[str]:
    dram_mib = machine.dram_bytes // MIB
    options = [
        "-m", f"{dram_mib}M,slots=4,maxmem=8G",
        "-object",
        f"memory-backend-file,id=dram,share=on,mem-path={dram},size={dram_mib}M",
    ]  # fmt: skip
    if machine.numa:
        options += ["-numa", "node,nodeid=0,memdev=dram"]
        options += ["-numa", "node,nodeid=1"]
    for number, size in enumerate(machine.nvram_bytes):
        path = machine.work_dir / f"nvram{number}"
        node = f",node={number}" if machine.numa else ""
        options += [
            "-object",
            f"memory-backend-file,id=nv{number},share=on,mem-path={path},size={size}",
            "-device", f"nvdimm,id=nvdimm{number},memdev=nv{number}{node}",
        ]  # fmt: skip
    return options


def _boot_options(machine: Machine) -> list[str]:
    if machine.shim is None:
        return [
            "-kernel", str(machine.kernel),
            "-append", machine.cmdline,
            "-initrd", str(machine.initrd),
        ]  # fmt: skip
    shim_map = machine.work_dir / "shim-map"
    shim_map.write_bytes(b"".join(struct.pack("<QQI", *entry) for entry in machine.map_entries))
    cmdline = machine.work_dir / "cmdline"
    cmdline.write_text(machine.cmdline)
    files = {
        "kernel": machine.kernel,
        "initrd": machine.initrd,
        "cmdline": cmdline,
        "shim-map": shim_map,
    }
    options = ["-kernel", str(machine.shim)]
    for name, path in files.items():
        options += ["-fw_cfg", f"name=opt/remanence/{name},file={path}"]
    return options


def _qemu_command(machine: Machine, dram: Path) -> list[str]:
    backend = "" if machine.numa else ",memory-backend=dram"
    return [
        "qemu-system-x86_64",
        "-machine", f"q35,accel=tcg,nvdimm=on{backend}",
        "-cpu", "Haswell-noTSX",
        "-smp", str(machine.cpus),
        *_memory_options(machine, dram),
        "-display", "none", "-nodefaults", "-no-reboot",
        "-serial", "stdio", "-serial", f"file:{machine.work_dir / 'guest.log'}",
        *_boot_options(machine),
        *machine.extra,
    ]  # fmt: skip


def _sections(output: str) -> dict[str, list[str]]:
    found = re.findall(r"^GUEST: begin (\w+)\n(.*?)^GUEST: end$", output, re.M | re.S)
    return {name: body.splitlines() for name, body in found}


def _text(log: Path) -> str:
    return log.read_bytes().decode(errors="replace").replace("\r", "")


def _run(command: list[str], log: Path, budget_s: int) -> bool:
    """True if QEMU ended by itself; a guest that will never end is killed at once."""
    deadline = time.monotonic() + budget_s
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            while time.monotonic() < deadline:
                try:
                    return process.wait(0.3) == 0
                except subprocess.TimeoutExpired:
                    if STOPPED.search(log.read_bytes()):
                        return False
            return False
        finally:
            process.kill()
            process.wait()


def boot(machine: Machine) -> Boot:
    """Start the machine, wait until it is done, check its DRAM."""
    dram = machine.work_dir / "dram"
    log = machine.work_dir / "console.log"
    guest_log = machine.work_dir / "guest.log"
    guest_log.write_bytes(b"")  # of this boot, even if QEMU does not get so far
    for number, size in enumerate(machine.nvram_bytes):
        with (machine.work_dir / f"nvram{number}").open("ab") as file:
            os.truncate(file.fileno(), size)
    with dram.open("wb") as file:
        os.truncate(file.fileno(), machine.dram_bytes)
    try:
        ended = _run(_qemu_command(machine, dram), log, machine.budget_s)
        console = _text(log)
        broken = _broken_pages(dram, _shim_ranges(console, "poison"))
    finally:
        dram.unlink()
    output = _text(guest_log)
    return Boot(console, ended and "GUEST: done" in output, _sections(output), broken)

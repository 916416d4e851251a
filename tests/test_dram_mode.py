# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claims, through our loader and with one kernel binary: with memtype=nvram main memory is NVRAM
only, a cut is not noticed, and no DRAM is written except the pages that the kernel lists; with
memtype=dram the same userland runs, no Stop is made because its image would be lost, and the next
boot reports why it is cold.

Method: the same programs run in both machines. To find writes, DRAM is a file full of poison;
firmware and loader write there, too, so their writes are found first with a kernel that halts at
its first instruction.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine, MachineConfig
from lab.machine.cut_plan import UNANNOUNCED, CutPlan
from lab.machine.qemu import NVRAM_PHYS
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import fast_dir, make_config
from tests.support.claims import BOOT_LIMIT_S, machine_name, warnings

PAGE_BYTES = 4096
LOW_PAGES_MAX = 9  # the bound: a single-digit number
SYSFS = "/sys/kernel/remanence"
REFUSED = "refused: main memory is not all non-volatile"
HOLD_UP_NS = 2_000_000_000
LOADER_LIMIT_S = 60.0

pytestmark = [pytest.mark.full, pytest.mark.in_turn("file"), pytest.mark.timeout(900)]

COMPILE = r"""
printf '#include <stdio.h>\nint main(void) { puts("hello, world"); return 0; }\n' > /tmp/hello.c
gcc -O2 -o /tmp/hello /tmp/hello.c && /tmp/hello
"""
DATABASE = """
rm -f /root/numbers.db
sqlite3 /root/numbers.db 'create table t(n integer); with recursive c(n) as
(select 1 union all select n + 1 from c where n < 10000) insert into t select n from c;
select count(*), sum(n) from t; pragma integrity_check;'
"""


@dataclass(frozen=True)
class Span:
    """Physical addresses, excluding the end."""

    start: int
    end: int

    def pages(self) -> set[int]:
        return set(range(self.start // PAGE_BYTES, self.end // PAGE_BYTES))


def output_of(machine: Machine, script: str) -> str:
    return machine.run_in_guest(script, limit_s=60.0).stdout.strip()


def iomem(machine: Machine, name: str) -> list[Span]:
    found = []
    for line in output_of(machine, "cat /proc/iomem").splitlines():
        where, _, what = line.strip().partition(" : ")
        if what == name:
            start, end = (int(word, 16) for word in where.split("-"))
            found.append(Span(start, end + 1))
    return found


def low_pages(machine: Machine) -> list[Span]:
    """The DRAM that the kernel reports to use: one line for all, then `PAGES at START: PURPOSE`."""
    total, *lines = output_of(machine, f"cat {SYSFS}/low_pages").splitlines()
    spans = []
    for line in lines:
        count, start = line.partition(":")[0].split(" at ")
        spans.append(Span(int(start, 16), int(start, 16) + int(count) * PAGE_BYTES))
        assert line.partition(": ")[2], f"no purpose: {line}"
    assert total == f"{sum(len(span.pages()) for span in spans)} in all"
    return spans


def check_userland(machine: Machine) -> None:
    assert output_of(machine, COMPILE) == "hello, world"
    assert output_of(machine, DATABASE).splitlines() == ["10000|50005000", "ok"]
    if output_of(machine, "redis-cli ping || true") != "PONG":
        output_of(
            machine, "redis-server --save '' --appendonly no --daemonize yes >/dev/null; sleep 2"
        )
    assert output_of(machine, "redis-cli set key 'only in memory'") == "OK"
    assert output_of(machine, "redis-cli get key") == "only in memory"


def config_of(purpose: str) -> MachineConfig:
    kernel = os.environ.get("REM_TEST_KERNEL")  # another bzImage to try
    return make_config(
        machine_name(purpose), stop_mode="fast", kernel=Path(kernel) if kernel else None
    )


@contextmanager
def booted_with(purpose: str, **changes: Any) -> Iterator[Machine]:
    config = replace(config_of(purpose), **changes)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


@pytest.fixture(scope="module")
def in_nvram() -> Iterator[Machine]:
    with booted_with("mt-nvram", memtype="nvram") as machine:
        yield machine


@pytest.fixture(scope="module")
def in_dram() -> Iterator[Machine]:
    with booted_with("mt-dram", memtype="dram") as machine:
        yield machine


def test_nvram_is_all_main_memory_but_for_listed_pages(in_nvram: Machine) -> None:
    listed = set[int]().union(*(span.pages() for span in low_pages(in_nvram)))
    assert 0 < len(listed) <= LOW_PAGES_MAX
    ram = iomem(in_nvram, "System RAM")
    assert any(span.start >= NVRAM_PHYS for span in ram)
    for span in ram:
        assert span.start >= NVRAM_PHYS or span.pages() <= listed, span
    for part in ("Kernel code", "Kernel rodata", "Kernel data", "Kernel bss"):
        (span,) = iomem(in_nvram, part)
        assert span.start >= NVRAM_PHYS, f"{part} at {span.start:#x}"


def test_nvram_survives_cuts(in_nvram: Machine) -> None:
    assert output_of(in_nvram, f"cat {SYSFS}/status") == "armed"
    check_userland(in_nvram)
    for _ in range(2):
        cut_and_resume(in_nvram)
        assert output_of(in_nvram, "redis-cli get key") == "only in memory"
    assert output_of(in_nvram, f"cat {SYSFS}/resumes") == "2"
    check_userland(in_nvram)
    assert warnings(in_nvram) == []


def test_dram_runs_the_same_userland_and_no_nvram(in_dram: Machine) -> None:
    for span in iomem(in_dram, "System RAM"):
        assert span.end <= NVRAM_PHYS, span
    for part in ("Kernel code", "Kernel rodata", "Kernel data", "Kernel bss"):
        (span,) = iomem(in_dram, part)
        assert span.end <= NVRAM_PHYS, f"{part} at {span.start:#x}"
    check_userland(in_dram)
    assert warnings(in_dram) == []


def test_both_modes_are_one_binary(in_nvram: Machine, in_dram: Machine) -> None:
    """Same kernel, same build, same programs: only memtype= differs."""
    assert in_nvram.config.kernel == in_dram.config.kernel
    assert output_of(in_nvram, "cat /proc/version") == output_of(in_dram, "cat /proc/version")
    assert "memtype=nvram" in output_of(in_nvram, "cat /proc/cmdline")
    assert "memtype=dram" in output_of(in_dram, "cat /proc/cmdline")


def test_dram_makes_no_stop_with_a_reason(in_dram: Machine) -> None:
    assert output_of(in_dram, f"cat {SYSFS}/status") == REFUSED
    output_of(in_dram, f"! echo now > {SYSFS}/stop")
    assert output_of(in_dram, f"cat {SYSFS}/status") == REFUSED


def test_dram_boots_cold_after_a_cut_with_a_reason(in_dram: Machine) -> None:
    """The last test of this machine: it loses its memory."""
    output_of(in_dram, "redis-cli ping || redis-server --save '' --daemonize yes >/dev/null")
    output_of(in_dram, "echo durable > /root/durable && sync /root/durable")
    in_dram.guest.close()
    assert not in_dram.cut(CutPlan(hold_up_ns=HOLD_UP_NS)).stopped, (
        "a Stop whose image would be gone"
    )
    in_dram.resume()
    note = in_dram.wait_boot_note(LOADER_LIMIT_S)
    assert note.reason == "COLD_NOT_COMMITTED"
    in_dram.wait_up(BOOT_LIMIT_S)
    assert output_of(in_dram, f"cat {SYSFS}/last_boot").startswith("not-committed ")
    assert output_of(in_dram, "cat /root/durable") == "durable"
    assert output_of(in_dram, "redis-cli ping 2>/dev/null || true") != "PONG"


def halting_kernel() -> bytes:
    """By the 64-bit boot protocol, entered at 0x200 of its second part."""
    head = bytearray(1024)
    head[0x1F1], head[0x201] = 1, 0x6A
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<HH", head, 0x206, 0x20F, 0)
    struct.pack_into("<I", head, 0x230, 0x200000)
    struct.pack_into("<H", head, 0x236, 3)
    struct.pack_into("<I", head, 0x238, 2047)
    struct.pack_into("<I", head, 0x260, 0x100000)
    code = bytes.fromhex("fa f4 eb fd")  # cli; hlt; jmp to the hlt
    file = bytes(head) + bytes(0x200) + code + bytes(12)
    return file + struct.pack("<I", zlib.crc32(file))


def poison(page: int) -> bytes:
    return struct.pack("<Q", page * 0x9E3779B97F4A7C15 & (2**64 - 1) ^ 0x52454D) * 512


def fill_with_poison(config: MachineConfig) -> None:
    assert config.dram_file is not None
    with config.dram_file.open("wb") as file:
        for page in range(config.dram_size_bytes // PAGE_BYTES):
            file.write(poison(page))


def written_pages(config: MachineConfig) -> set[int]:
    assert config.dram_file is not None
    with (
        config.dram_file.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as dram,
    ):
        pages = range(len(dram) // PAGE_BYTES)
        return {p for p in pages if dram[p * PAGE_BYTES : (p + 1) * PAGE_BYTES] != poison(p)}


def written_before_the_kernel(config: MachineConfig, kernel: Path) -> set[int]:
    """Pages that firmware and loader write each time a machine starts."""
    kernel.write_bytes(halting_kernel())
    config = replace(config, name=machine_name("mt-halts"), kernel=kernel)
    fill_with_poison(config)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_boot_note(LOADER_LIMIT_S)
        time.sleep(1)  # the note is the loader's last step; let it leave
        machine.cut(UNANNOUNCED)
    return written_pages(config)


def test_dram_keeps_its_poison_but_for_the_listed_pages(tmp_path: Path) -> None:
    dram_file = (fast_dir() or tmp_path) / f"{machine_name('poison')}.dram"
    config = config_of("mt-poison")
    config = replace(config, memtype="nvram", dram_file=dram_file)
    try:
        before = written_before_the_kernel(config, tmp_path / "halts")
        assert len(before) < config.dram_size_bytes // PAGE_BYTES // 4, "too few untouched pages"
        fill_with_poison(config)
        with booted_with("mt-poison", memtype="nvram", dram_file=dram_file) as machine:
            check_userland(machine)
            output_of(machine, "dd if=/dev/zero of=/dev/null bs=400M count=2 2>/dev/null")
            output_of(machine, "cat /usr/bin/* /usr/lib/x86_64-linux-gnu/*.so* > /dev/null")
            cut_and_resume(machine)
            check_userland(machine)
            listed = set[int]().union(*(span.pages() for span in low_pages(machine)))
            machine.guest.close()
            machine.cut()
        written = written_pages(config)
    finally:
        dram_file.unlink(missing_ok=True)
    print(f"pages of DRAM: {len(before)} written before the kernel, {len(listed)} listed")
    assert sorted(map(hex, written - before - listed)) == []
    assert (written - before) & listed, "not even the trampoline was seen: is poison seen at all?"

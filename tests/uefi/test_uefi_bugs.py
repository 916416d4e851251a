# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the checks of UEFI's front end find what they are for.

Method: a loader with planted bugs (loader/mutants), and inner checks as in the other tests. Each
must pass without a bug on the same loader, and fail by the verdict that the bug's patch names.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from lab import format as fmt
from lab.setup.ovmf import Ovmf
from lab.setup.products import need
from lab.verdict import BrokenError
from loader.host.small import REGION_BYTES, REGION_PHYS
from tests.support.proofs import must_be_found
from tests.uefi.conftest import Make
from tests.uefi.machine import UefiMachine, check_nothing_writes

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(300)]

HEALTHY = "none"
# The upper part of DRAM, which an NFIT calls persistent: firmware gives its programs memory there.
DRAM_MIB = 160
FALSE_PHYS, FALSE_BYTES = 64 << 20, 96 << 20
PERSISTENT = bytes.fromhex("79d3f066f3b47440ac430d3318b78cdb")  # as a range of the NFIT has it
DESC_AT, DESC_MAGIC = int(fmt.CONST["REM_DESC_OFFSET"]), b"REMDESCR"
BLOCK_BYTES = int(fmt.CONST["REM_BLOCK_BYTES"])
PAGE = b"a page of an image" + bytes(4096 - 18)
NO_ENTRY_S = 40.0


def devices_after_entry(machine: UefiMachine) -> str:
    machine.extra = ["-device", "virtio-rng-pci,disable-legacy=off"]
    machine.run()
    machine.put_image(7, 6)
    return machine.run()


@pytest.mark.parametrize("name", ["keep-boot-services", "keep-dma"])
def test_device_that_still_writes_is_found(make: Make, name: str) -> None:
    machine = make(HEALTHY)
    check_nothing_writes(devices_after_entry(machine))
    machine.put_image(9, 8)
    machine.mutant = name
    with must_be_found(name, "[1-9] devices in use" if name == "keep-boot-services" else ""):
        check_nothing_writes(machine.run())


def nfit(ranges: list[tuple[int, int]]) -> bytes:
    """An NFIT of these ranges: (address, bytes)."""
    body = bytes(4)
    for number, (base, size) in enumerate(ranges, 1):
        body += struct.pack("<HHHHII", 0, 56, number, 2, 0, 0) + PERSISTENT
        body += struct.pack("<QQQ", base, size, 0x8008)
    head = struct.pack("<4sIBB6s8sIII", b"NFIT", 36 + len(body), 1, 0, b"BOCHS ", b"TEST", 1, 0, 0)
    table = bytearray(head + body)
    table[9] = -sum(table) % 256
    return bytes(table)


class FalseNfit(UefiMachine):
    """An NFIT with two ranges: DRAM, and memory that firmware does not know. Both are files."""

    def nvdimms(self) -> list[str]:
        table = self.folder / "nfit"
        table.write_bytes(nfit([(FALSE_PHYS, FALSE_BYTES), (REGION_PHYS, REGION_BYTES)]))
        return [
            "-object", f"memory-backend-file,id=dram,share=on,mem-path={self.dram},"
            f"size={DRAM_MIB}M",
            "-machine", "memory-backend=dram",
            "-object", f"memory-backend-file,id=nv,share=on,mem-path={self.nvram},"
            f"size={REGION_BYTES}",
            "-device", f"pc-dimm,memdev=nv,addr={REGION_PHYS:#x}",
            "-acpitable", f"file={table}",
        ]  # fmt: skip

    @property
    def dram(self) -> Path:
        return self.folder / "dram"

    def region(self) -> tuple[Path, int, int]:
        """Where the loader has its block: a file, offset and size in it."""
        for place in ((self.nvram, 0, REGION_BYTES), (self.dram, FALSE_PHYS, FALSE_BYTES)):
            with place[0].open("rb") as file:
                file.seek(place[1] + DESC_AT)
                if file.read(len(DESC_MAGIC)) == DESC_MAGIC:
                    return place
        raise AssertionError("no block in any range")


def check_firmware_leaves_the_region(machine: FalseNfit) -> None:
    """Inner check: what an image would have in the region is there after firmware has run again."""
    machine.dram_mib = DRAM_MIB
    machine.dram.touch()
    os.truncate(machine.dram, DRAM_MIB << 20)
    assert "GO: cold 16 no-block" in machine.run()
    path, offset, size = machine.region()
    pages = (size - BLOCK_BYTES) // len(PAGE)
    with path.open("r+b") as file:
        file.seek(offset + BLOCK_BYTES)
        file.write(PAGE * pages)
    machine.with_loader = False
    with machine.running() as running:
        running.wait("Shell>")
    with path.open("rb") as file:
        file.seek(offset + BLOCK_BYTES)
        broken = sum(file.read(len(PAGE)) != PAGE for _ in range(pages))
    if broken:
        raise BrokenError("overwritten", f"firmware has written to {broken} pages of the region")


def test_image_in_memory_of_firmware_is_found(make: Make, tmp_path: Path) -> None:
    """The larger range is DRAM, so it would be the region if firmware did not use it."""

    def false_nfit(mutant: str, name: str) -> FalseNfit:
        usual = make(mutant)
        folder = tmp_path / name
        folder.mkdir()
        machine = FalseNfit(folder, usual.loader, usual.build_record, need(Ovmf()))
        machine.mutant = mutant
        return machine

    check_firmware_leaves_the_region(false_nfit(HEALTHY, "healthy"))
    with must_be_found("take-firmware-memory"):
        check_firmware_leaves_the_region(false_nfit("take-firmware-memory", "planted"))


def check_other_amount_is_refused(machine: UefiMachine, sequence: int) -> None:
    """Inner check: with another amount of DRAM than at the Stop, that is the reason."""
    machine.dram_mib = 64
    machine.run()
    machine.put_image(sequence, sequence - 1)
    machine.dram_mib = 128
    text = machine.run()
    if "STUB entered" in text:
        raise BrokenError("differs", "an image was entered under another memory map")
    if "35 memory-differs" not in text:
        # Tables of firmware move with its memory.
        raise BrokenError("other-decision", "another memory map has another name")


def test_other_memory_map_that_is_ignored_is_found(make: Make) -> None:
    machine = make(HEALTHY)
    check_other_amount_is_refused(machine, 7)
    machine.mutant = "ignore-dram"
    with must_be_found("ignore-dram"):
        check_other_amount_is_refused(machine, 9)


def check_kernel_in_dram_is_entered(machine: UefiMachine) -> None:
    """Inner check: kernel and initrd are loaded where the loader and its files are not."""
    machine.dram_mib = 128
    machine.cmdline.write_text("console=ttyS0 memtype=dram\n")
    machine.texts["initrd"] = "x" * (30 << 20)
    try:
        text = machine.run(NO_ENTRY_S)
    except subprocess.TimeoutExpired as error:
        text = (error.stdout or b"").decode("latin-1")
    except AssertionError as error:  # the machine has reset itself
        text = str(error)
    assert "GO: cold" in text
    if "KERNEL entered" not in text:
        raise BrokenError("not-entered", "no kernel is entered after the decision")


def test_kernel_that_is_loaded_over_the_loader_is_found(make: Make) -> None:
    machine = make(HEALTHY)
    check_kernel_in_dram_is_entered(machine)
    machine.mutant = "load-over-loader"
    with must_be_found("load-over-loader"):
        check_kernel_in_dram_is_entered(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: started by UEFI the loader decides as it does without: an image is entered once, on its
own machine, when nothing but the loader writes to memory; else there is a cold boot with a reason,
or firmware goes on to its next boot entry.

Method: the kernel and the image of a few instructions of `loader/host/small.py`. The image reports
which devices could write to memory when it was entered.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable

import pytest

from lab import format as fmt
from lab.setup.ovmf import Ovmf
from lab.setup.products import need
from loader.host.small import REGION_BYTES, REGION_PHYS, bz_image
from tests.uefi.machine import UefiMachine, check_nothing_writes

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

RAM, RESERVED, ACPI, NVS, PMEM = 1, 2, 3, 4, 7
# OVMF has a driver for the first, which has a port that tells whether it is in use.
DEVICES = ["-device", "virtio-rng-pci,disable-legacy=off", "-device", "e1000,romfile="]
FIRST_BLOCK_BYTES = int(fmt.CONST["REM_BLOCK_BYTES"])
PATTERN = b"no firmware has written here.   "


def map_of_kernel(machine: UefiMachine) -> list[tuple[int, int, int]]:
    """The memory map of boot_params, which are in the block: (base, bytes, type)."""
    raw = machine.read(int(fmt.CONST["REM_WORK_OFFSET"]), 4096)
    return [struct.unpack_from("<QQI", raw, 0x2D0 + 20 * n) for n in range(raw[0x1E8])]


def test_image_is_entered_once_and_nothing_else_writes(machine: UefiMachine) -> None:
    machine.cmdline.write_text("console=ttyS0 memtype=nvram\n")
    machine.extra = DEVICES
    text = machine.run()
    assert "GO: cold 16 no-block" in text
    assert "KERNEL entered" in text
    kinds = {kind for base, _, kind in map_of_kernel(machine) if base < REGION_PHYS}
    assert {RAM, RESERVED, ACPI, NVS} <= kinds
    nvram = [entry for entry in map_of_kernel(machine) if entry[2] == PMEM]
    assert nvram == [(REGION_PHYS + FIRST_BLOCK_BYTES, REGION_BYTES - FIRST_BLOCK_BYTES, PMEM)]
    machine.put_image(7, 6)
    text = machine.run()
    assert "GO: resume sequence 7" in text
    assert "STUB entered" in text
    check_nothing_writes(text)
    assert machine.consumed() == 7
    text = machine.run()
    assert "GO: cold 20 already-consumed sequence 7 slot 1" in text
    assert "KERNEL entered" in text


def other_kernel(machine: UefiMachine) -> None:
    machine.kernel.write_bytes(bz_image(b"KERNEL b entered\r\n"))


def more_cpus(machine: UefiMachine) -> None:
    machine.cpus = 4


def more_dram(machine: UefiMachine) -> None:
    machine.dram_mib = 128


def more_nvram(machine: UefiMachine) -> None:
    os.truncate(machine.nvram, 2 * REGION_BYTES)


def no_disk(machine: UefiMachine) -> None:
    machine.serial = None


def other_disk(machine: UefiMachine) -> None:
    machine.serial = "other"


def other_window(machine: UefiMachine) -> None:
    """Firmware gives PCI devices other addresses, which are in AML."""
    machine.extra = ["-fw_cfg", "name=opt/ovmf/X-PciMmio64Mb,string=131072"]


def asked(machine: UefiMachine) -> None:
    machine.texts["cold"] = ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_kernel, "32 kernel-differs"),
        pytest.param(more_cpus, "33 cpu-differs", marks=pytest.mark.in_turn),
        (more_dram, "35 memory-differs"),
        pytest.param(more_nvram, "35 memory-differs", marks=pytest.mark.in_turn),
        pytest.param(no_disk, "36 pci-differs", marks=pytest.mark.in_turn),
        pytest.param(other_window, "37 acpi-differs", marks=pytest.mark.in_turn),
        pytest.param(other_disk, "38 disk-differs", marks=pytest.mark.in_turn),
        pytest.param(asked, "48 asked", marks=pytest.mark.in_turn),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_another_machine_is_refused_and_named(
    machine: UefiMachine, change: Callable[[UefiMachine], None], reason: str
) -> None:
    machine.run()
    machine.put_image(7, 6)
    change(machine)
    text = machine.run()
    assert f"GO: cold {reason} sequence 7" in text
    assert "entered" in text and "STUB" not in text
    assert machine.consumed() == 7


def screen_of_kernel(machine: UefiMachine) -> tuple[int, ...]:
    """Of boot_params: kind, width, height, depth, base, bytes, bytes of a line."""
    raw = machine.read(int(fmt.CONST["REM_WORK_OFFSET"]), 4096)
    screen = struct.unpack_from("<HHHII", raw, 0x12)
    return (raw[0xF], *screen, *struct.unpack_from("<H", raw, 0x24))


@pytest.mark.in_turn
def test_kernel_gets_firmwares_screen_which_is_the_same_at_each_boot(machine: UefiMachine) -> None:
    machine.run()
    assert screen_of_kernel(machine) == (0,) * 7
    machine.extra = ["-device", "VGA"]
    machine.run()
    kind, width, height, depth, base, size, line = first = screen_of_kernel(machine)
    assert (kind, depth) == (0x70, 32)
    assert width >= 640 and height >= 480 and line >= 4 * width and size == line * height
    assert 1 << 31 <= base < 0xFEC00000, "a window of PCI"
    machine.put_image(7, 6)
    assert "GO: resume sequence 7" in machine.run()
    machine.run()
    assert screen_of_kernel(machine) == first


def lost_variables(machine: UefiMachine) -> None:
    """As after a new battery of the board: firmware makes its boot entries again."""
    shutil.copyfile(need(Ovmf()).variables, machine.variables)


def larger_files(machine: UefiMachine) -> None:
    """The loader's files take firmware's memory from elsewhere."""
    machine.texts["initrd"] = "x" * (12 << 20)


@pytest.mark.parametrize("move", [lost_variables, larger_files])
def test_map_that_moves_without_a_difference_resumes(
    machine: UefiMachine, move: Callable[[UefiMachine], None]
) -> None:
    machine.run()
    machine.put_image(7, 6)
    move(machine)
    assert "GO: resume sequence 7" in machine.run()


@pytest.mark.in_turn
def test_firmware_writes_to_no_nvram(machine: UefiMachine) -> None:
    """Not even when it looks for something to boot, on disks and the network, and finds nothing but
    its shell."""
    with machine.nvram.open("r+b") as nvram:
        nvram.write(PATTERN * (REGION_BYTES // len(PATTERN)))
    machine.with_loader = False
    machine.extra = ["-device", "e1000,netdev=n", "-netdev", "user,id=n,restrict=on"]
    with machine.running() as running:
        running.wait("Shell>")
    assert machine.nvram.read_bytes() == PATTERN * (REGION_BYTES // len(PATTERN))


def no_kernel(machine: UefiMachine) -> None:
    machine.with_kernel = False


def no_nvram(machine: UefiMachine) -> None:
    machine.first = False


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("lacks", "why"),
    [(no_kernel, "GO: no kernel: "), (no_nvram, "GO: no NVRAM: ")],
    ids=["no_kernel", "no_nvram"],
)
def test_without_anything_to_boot_firmware_goes_on(
    machine: UefiMachine, lacks: Callable[[UefiMachine], None], why: str
) -> None:
    """To the entry that it would start without this loader; here it has its shell."""
    lacks(machine)
    with machine.running() as running:
        running.wait(why)
        running.wait("Shell>")

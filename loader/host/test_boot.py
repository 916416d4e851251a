# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader in QEMU, against a kernel and an image of a few instructions.

Goal: each path of the loader is taken once on a whole machine. Method: a bzImage that only prints
that it was entered, and images made by build-record with the description that the loader left in
NVRAM.

    python3 -m pytest loader/host/test_boot.py      (LOADER_OUT = OUT of make)
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import zlib
from pathlib import Path

import pytest

OUT = Path(os.environ.get("LOADER_OUT", Path(__file__).parents[1] / "build"))
REGION_PHYS = 0x1_0000_0000
REGION_BYTES = 64 << 20
BLOCK_BYTES = 2 << 20
BOUND_S = 60.0


def print_and_exit(text: bytes) -> bytes:
    """Position-independent 64-bit code: text to COM1, then isa-debug-exit."""
    code = bytes.fromhex(
        "488d1d16000000"  # lea text(%rip), %rbx
        "66baf803"  # mov $0x3f8, %dx
        "8a03"  # mov (%rbx), %al
        "84c0"  # test %al, %al
        "7406"  # jz exit
        "ee"  # out %al, %dx
        "48ffc3"  # inc %rbx
        "ebf4"  # jmp to the load of %al
        "66baf400"  # exit: mov $0xf4, %dx
        "ee"  # out %al, %dx
        "f4"  # hlt
    )
    assert len(code) == 29
    return code + text + b"\0"


def bz_image(text: bytes = b"KERNEL entered\r\n") -> bytes:
    """A kernel by the 64-bit boot protocol: entry 0x200 into its second part."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x201] = 0x6A
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<HH", head, 0x206, 0x20F, 0)
    struct.pack_into("<H", head, 0x20E, 0x100)
    struct.pack_into("<I", head, 0x230, 0x200000)
    struct.pack_into("<H", head, 0x236, 3)
    struct.pack_into("<I", head, 0x238, 2047)
    struct.pack_into("<I", head, 0x260, 0x100000)
    head[0x300:0x310] = b"6.12.0-test\0\0\0\0\0"
    body = bytes(0x200) + print_and_exit(text)
    file = bytes(head) + body + bytes(-len(body) % 16)
    return file + struct.pack("<I", zlib.crc32(file))


class Machine:
    def __init__(self, folder: Path) -> None:
        self.nvram = folder / "nvram"
        self.kernel = folder / "kernel"
        self.cmdline = folder / "cmdline"
        self.disk = folder / "disk"
        self.nvram.touch()
        os.truncate(self.nvram, REGION_BYTES)
        self.kernel.write_bytes(bz_image())
        self.cmdline.write_text("console=ttyS0\n")
        self.disk.touch()
        os.truncate(self.disk, 1 << 20)
        self.cpus = 2
        self.dram_mib = 64
        self.serial: str | None = "rem-root"
        self.extra: list[str] = []

    def command(self) -> list[str]:
        command = [
            "qemu-system-x86_64", "-machine", "q35,nvdimm=on", "-cpu", "Haswell-noTSX",
            "-smp", str(self.cpus), "-m", f"{self.dram_mib}M,slots=2,maxmem=8G",
            "-object", f"memory-backend-file,id=nv,share=on,mem-path={self.nvram},"
            f"size={self.nvram.stat().st_size}",
            "-device", "nvdimm,memdev=nv", "-display", "none", "-nodefaults", "-no-reboot",
            "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=1",
            "-kernel", str(OUT / "loader.elf"),
            "-fw_cfg", f"name=opt/remanence/kernel,file={self.kernel}",
            "-fw_cfg", f"name=opt/remanence/cmdline,file={self.cmdline}",
        ]  # fmt: skip
        if self.serial is not None:
            command += [
                "-drive", f"if=none,id=d0,file={self.disk},format=raw",
                "-device", f"virtio-blk-pci,drive=d0,serial={self.serial}",
            ]  # fmt: skip
        return command + self.extra

    def run(self, bound_s: float = BOUND_S) -> str:
        """Run until the kernel or the image ends QEMU; return the console output."""
        done = subprocess.run(
            self.command(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=bound_s,
            check=False,
        )
        text = done.stdout.decode("latin-1").replace("\r", "")
        assert "entered" in text, text + done.stderr.decode()
        return text

    def put_image(self, sequence: int, consumed: int) -> None:
        subprocess.run(
            [
                str(OUT / "host" / "build-record"),
                str(self.nvram), hex(REGION_PHYS), str(sequence), str(consumed),
            ],
            check=True,
        )  # fmt: skip

    def read(self, offset: int, count: int) -> bytes:
        with self.nvram.open("rb") as file:
            file.seek(offset)
            return file.read(count)

    def consumed(self) -> int:
        return int.from_bytes(self.read(0x1000, 4), "little")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_first_boot_reports_no_block(machine: Machine) -> None:
    text = machine.run()
    assert "GO: cold 16 no-block" in text
    assert "KERNEL entered" in text
    reason = int.from_bytes(machine.read(0x400C, 4), "little")
    assert reason == 16
    assert machine.read(0x102000, 14) == b"console=ttyS0\0"
    rsdp, xsdt = machine.read(0x80000, 36), machine.read(0x80040, 4)
    assert rsdp[:8] == b"RSD PTR " and xsdt == b"XSDT"


def test_image_is_entered_once(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6)
    text = machine.run()
    assert "GO: resume sequence 7" in text
    assert "STUB entered" in text
    assert machine.consumed() == 7
    text = machine.run()
    assert "GO: cold 20 already-consumed sequence 7 slot 1" in text
    assert "KERNEL entered" in text


def test_loader_events_are_in_the_timeline(machine: Machine) -> None:
    machine.run()
    machine.put_image(8, 7)
    machine.run()
    events = machine.read(0x30000 + 480 * 32, 4 * 32)
    types = [struct.unpack_from("<IH", events, n * 32) for n in range(4)]
    assert types == [(8, 32), (8, 33), (8, 34), (8, 35)]
    tscs = [struct.unpack_from("<Q", events, n * 32 + 8)[0] for n in range(4)]
    assert tscs == sorted(tscs)


def test_two_boots_describe_the_same_machine(machine: Machine) -> None:
    machine.run()
    first = machine.read(0x5000, 0xB000)
    machine.run()
    assert machine.read(0x5000, 0xB000) == first


PARAMS = 0x100000  # boot_params in the block, by cold_boot.c
RAM, RESERVED, ACPI, PMEM = 1, 2, 3, 7


def map_of_kernel(machine: Machine) -> list[tuple[int, int, int]]:
    """The memory map of boot_params: (base, bytes, type)."""
    raw = machine.read(PARAMS, 4096)
    return [struct.unpack_from("<QQI", raw, 0x2D0 + 20 * n) for n in range(raw[0x1E8])]


def kernel_in_nvram(machine: Machine) -> bool:
    body = machine.kernel.read_bytes()[1024:]
    return machine.read(BLOCK_BYTES, len(body)) == body


def dram_in_map(machine: Machine, kind: int) -> int:
    low = [entry for entry in map_of_kernel(machine) if entry[0] < REGION_PHYS]
    return sum(size for base, size, what in low if what == kind and base < machine.dram_mib << 20)


def test_without_memtype_dram_is_hidden(machine: Machine) -> None:
    machine.run()
    assert dram_in_map(machine, RAM) == 0x8000
    region = [entry for entry in map_of_kernel(machine) if entry[0] >= REGION_PHYS]
    assert {kind for _, _, kind in region} == {RAM, RESERVED, ACPI}
    assert kernel_in_nvram(machine)


@pytest.mark.parametrize("kinds", ["nvram", "nvram,dram", "dram", "wrong"])
def test_with_memtype_map_has_the_kind_of_each_range(machine: Machine, kinds: str) -> None:
    machine.cmdline.write_text(f"console=ttyS0 memtype={kinds}\n")
    machine.run()
    assert dram_in_map(machine, RAM) > (machine.dram_mib - 1) << 20
    region = [entry for entry in map_of_kernel(machine) if entry[0] >= REGION_PHYS]
    assert {kind for _, _, kind in region} == {PMEM, RESERVED, ACPI}
    nvram = [(base, size) for base, size, kind in region if kind == PMEM]
    assert nvram == [(REGION_PHYS + BLOCK_BYTES, REGION_BYTES - BLOCK_BYTES)]
    assert kernel_in_nvram(machine) == (kinds != "dram")


def test_initrd_is_passed_beside_the_kernel(machine: Machine, tmp_path: Path) -> None:
    initrd = tmp_path / "initrd"
    initrd.write_bytes(b"initrd" * 1000)
    machine.extra = ["-fw_cfg", f"name=opt/remanence/initrd,file={initrd}"]
    for kinds, above in (("nvram", True), ("dram", False)):
        machine.cmdline.write_text(f"memtype={kinds}")
        machine.run()
        raw = machine.read(PARAMS, 4096)
        low, size = struct.unpack_from("<II", raw, 0x218)
        high = struct.unpack_from("<I", raw, 0x0C0)[0]
        assert size == 6000
        assert (high << 32 | low >= REGION_PHYS) == above
        assert (high << 32 | low) > 0x100000


def test_kernel_too_large_for_dram_is_refused(machine: Machine) -> None:
    raw = bytearray(machine.kernel.read_bytes())
    struct.pack_into("<I", raw, 0x260, 60 << 20)  # init_size: fits NVRAM, but not DRAM
    machine.kernel.write_bytes(raw)
    machine.dram_mib = 32
    machine.cmdline.write_text("memtype=dram")
    with pytest.raises(subprocess.TimeoutExpired) as stopped:
        machine.run(bound_s=10)
    assert b"GO: the kernel needs 62914560 bytes, too much for DRAM of" in stopped.value.stdout
    machine.cmdline.write_text("memtype=nvram")
    assert "KERNEL entered" in machine.run()


def more_cpus(machine: Machine) -> None:
    machine.cpus = 4


def more_dram(machine: Machine) -> None:
    machine.dram_mib = 96


def more_nvram(machine: Machine) -> None:
    os.truncate(machine.nvram, 2 * REGION_BYTES)


def other_kernel(machine: Machine) -> None:
    machine.kernel.write_bytes(bz_image(b"KERNEL b entered\r\n"))


def no_disk(machine: Machine) -> None:
    machine.serial = None


def other_disk(machine: Machine) -> None:
    machine.serial = "rem-other"


def larger_disk(machine: Machine) -> None:
    os.truncate(machine.disk, 2 << 20)


def one_more_device(machine: Machine) -> None:
    machine.extra = ["-device", "virtio-rng-pci"]


def other_cpu_features(machine: Machine) -> None:
    command = machine.command()
    model = command[command.index("-cpu") + 1]
    machine.extra = ["-cpu", f"{model},-avx2"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (more_cpus, "GO: cold 33 cpu-differs sequence 7"),
        (more_dram, "GO: cold 35 memory-differs sequence 7"),
        (more_nvram, "GO: cold 35 memory-differs sequence 7"),
        (other_kernel, "GO: cold 32 kernel-differs sequence 7"),
        (no_disk, "GO: cold 36 pci-differs sequence 7"),
        (other_disk, "GO: cold 38 disk-differs sequence 7"),
        (larger_disk, "GO: cold 38 disk-differs sequence 7"),
        (one_more_device, "GO: cold 36 pci-differs sequence 7"),
        (other_cpu_features, "GO: cold 34 cpuid-differs sequence 7"),
    ],
)
def test_another_machine_is_refused_and_named(machine: Machine, change, line: str) -> None:  # type: ignore[no-untyped-def]
    machine.run()
    machine.put_image(7, 6)
    change(machine)
    text = machine.run()
    assert line in text
    assert "GO: expected type" in text and "GO: found    type" in text
    assert machine.consumed() == 7


def test_requested_cold_boot_consumes(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6)
    machine.extra = ["-fw_cfg", "name=opt/remanence/cold,string=1"]
    assert "GO: cold 48 asked sequence 7" in machine.run()
    assert machine.consumed() == 7


def status(ok: bool, charge: int, sequence: int) -> int:
    byte = ok | charge << 1 | sequence << 3
    return byte | (byte.bit_count() & 1) << 7


class Supply(threading.Thread):
    """Sends its statuses in turn, and repeats each until it is echoed."""

    def __init__(self, path: Path, statuses: list[int]) -> None:
        super().__init__(daemon=True)
        self.statuses = statuses
        self.echoes: list[int] = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen()

    def run(self) -> None:
        wire, _ = self.server.accept()
        wire.settimeout(0.005)
        for byte in self.statuses:
            echo = (byte & 0x7F) | 0x40
            echo |= (echo.bit_count() & 1) << 7
            while not self.echoes or self.echoes[-1] != echo:
                try:
                    wire.send(bytes([byte]))
                    self.echoes += wire.recv(1)
                except TimeoutError:
                    continue
                except OSError:
                    return


def with_supply(machine: Machine, path: Path, statuses: list[int]) -> Supply:
    supply = Supply(path, statuses)
    supply.start()
    machine.extra = ["-chardev", f"socket,id=pwr,path={path}", "-serial", "chardev:pwr"]
    return supply


def test_loader_enters_with_power_and_charge(machine: Machine, tmp_path: Path) -> None:
    with_supply(machine, tmp_path / "wire1", [])
    machine.run()
    machine.put_image(7, 6)
    statuses = [status(False, 3, 1), status(True, 1, 2), status(True, 2, 3)]
    supply = with_supply(machine, tmp_path / "wire2", statuses)
    assert "GO: resume sequence 7" in machine.run()
    # Only the last status allows it.
    assert machine.read(0x4090, 4)[0] == statuses[-1]
    assert len(supply.echoes) >= 3


def test_loader_waits_while_power_is_bad(machine: Machine, tmp_path: Path) -> None:
    with_supply(machine, tmp_path / "wire1", [])
    machine.run()
    machine.put_image(7, 6)
    with_supply(machine, tmp_path / "wire2", [status(False, 0, 1)])
    with pytest.raises(subprocess.TimeoutExpired) as stopped:
        machine.run(bound_s=3)
    assert b"GO: wait for power" in (stopped.value.stdout or b"")
    assert machine.consumed() == 6


def test_loader_continues_without_a_supply_that_answers(machine: Machine, tmp_path: Path) -> None:
    with_supply(machine, tmp_path / "wire1", [])
    machine.run()
    machine.put_image(7, 6)
    with_supply(machine, tmp_path / "wire2", [])
    text = machine.run()
    assert "GO: no supply: no status for 1000 ms" in text
    assert "GO: resume sequence 7" in text

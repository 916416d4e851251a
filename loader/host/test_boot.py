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
import time
from pathlib import Path

import pytest

from loader.host.small import (
    REGION_BYTES,
    REGION_PHYS,
    SECOND_PHYS,
    Machine,
    bz_image,
)

pytestmark = pytest.mark.full  # the quick tier builds no loader

OUT = Path(os.environ.get("LOADER_OUT", Path(__file__).parents[1] / "build"))
BLOCK_BYTES = 2 << 20
HOLD, HOLD_COLD = 2, 3  # enum rem_policy
EVENTS_STOP, EVENTS_GO = 0, 512  # of the timeline
CPU_LOST, MICROCODE = 72, 73  # enum rem_event_type
MANY_PARTS_BOUND_S = 240.0  # QEMU itself takes long to make them


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, OUT / "loader.elf", OUT / "host" / "build-record")


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


@pytest.mark.parametrize(
    ("sequence", "place", "kind", "name"),
    [
        (7, EVENTS_GO + 9, CPU_LOST, "27 cpu-lost"),
        (7, EVENTS_GO + 2, MICROCODE, "28 microcode"),
        (8, EVENTS_STOP + 41, CPU_LOST, "27 cpu-lost"),
    ],
    ids=["go", "microcode", "refused-stop"],
)
def test_reset_in_go_is_reported_by_the_boot_that_follows(
    machine: Machine, sequence: int, place: int, kind: int, name: str
) -> None:
    """And by no other: after that one the machine is as after any cold boot."""
    machine.run()
    machine.put_image(7, 6)
    assert "GO: resume sequence 7" in machine.run()
    machine.put_event(sequence, place, kind)
    assert f"GO: cold {name} sequence 7" in machine.run()
    assert "GO: cold 20 already-consumed sequence 7" in machine.run()


def test_reset_in_go_that_a_requested_cold_boot_follows_is_not_reported_later(
    machine: Machine,
) -> None:
    machine.run()
    machine.put_image(7, 7)
    machine.put_event(8, EVENTS_STOP + 41, CPU_LOST)
    machine.extra = ["-fw_cfg", "name=opt/remanence/cold,string=1"]
    assert "GO: cold 48 asked" in machine.run()
    machine.extra = []
    assert "GO: cold 20 already-consumed sequence 7" in machine.run()


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


@pytest.mark.in_turn
def test_machine_with_too_many_parts_boots_cold(machine: Machine) -> None:
    """More than a description holds: no image can be compared, but a kernel can be booted."""
    machine.run()
    machine.put_image(7, 6)
    bridges = {
        "pcie.0": [],
        "b1": ["pcie-pci-bridge,id=b0", "pci-bridge,id=b1,bus=b0,chassis_nr=1"],
        "b2": ["pci-bridge,id=b2,bus=b0,chassis_nr=2"],
    }
    for bus, bridge in bridges.items():
        machine.extra += [word for device in bridge for word in ("-device", device)]
        machine.extra += [
            word
            for slot in range(0x08, 0x1F)
            for function in range(8)
            for word in (
                "-device",
                f"pvpanic-pci,bus={bus},multifunction=on,addr={slot:#x}.{function:#x}",
            )
        ]
    text = machine.run(MANY_PARTS_BOUND_S)
    assert "GO: the machine has more than 512 parts" in text
    assert "GO: cold 40 machine-too-large sequence 7" in text
    assert machine.consumed() == 7
    assert "KERNEL entered" in text


def test_requested_cold_boot_consumes(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6)
    machine.extra = ["-fw_cfg", "name=opt/remanence/cold,string=1"]
    assert "GO: cold 48 asked sequence 7" in machine.run()
    assert machine.consumed() == 7


def test_damaged_consumed_word_closes_both_slots(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6)
    with machine.nvram.open("r+b") as file:
        file.seek(0x1006)
        file.write(b"\xff\xff")
    assert "GO: cold 18 consumed-invalid" in machine.run()
    assert machine.consumed() == 7
    assert machine.read(0x2000, 8) == machine.read(0x3000, 8) == bytes(8)


def test_image_in_the_second_range_is_entered(machine: Machine) -> None:
    machine.add_second()
    machine.run()
    machine.put_image(7, 6)
    text = machine.run()
    assert "GO: resume sequence 7" in text
    assert "STUB entered" in text


def second_in_map(machine: Machine) -> list[tuple[int, int, int]]:
    return [entry for entry in map_of_kernel(machine) if entry[0] >= SECOND_PHYS]


def test_first_page_of_another_range_is_reserved_where_it_is_main_memory(machine: Machine) -> None:
    machine.add_second()
    machine.run()
    assert second_in_map(machine) == [(SECOND_PHYS, REGION_BYTES, PMEM)]
    assert machine.second is not None
    assert machine.second.read_bytes()[:64] == bytes(64), "memory of programs was written"
    machine.cmdline.write_text("memtype=nvram")
    machine.run()
    assert second_in_map(machine) == [
        (SECOND_PHYS, 0x1000, RESERVED),
        (SECOND_PHYS + 0x1000, REGION_BYTES - 0x1000, PMEM),
    ]
    assert machine.second.read_bytes()[:8] == b"REMRANGE"


WITHOUT_MEMTYPE = "console=ttyS0"
KINDS = ["memtype=nvram", "memtype=dram", WITHOUT_MEMTYPE]


def take_away_the_block(machine: Machine, cmdline: str) -> None:
    """There is an image, which may have parts in both ranges, or files of programs; the range with
    the block is absent from now on."""
    machine.cmdline.write_text(cmdline)
    machine.add_second()
    machine.run()
    machine.put_image(7, 6)
    machine.first = False


@pytest.mark.parametrize("formats", [False, True], ids=["", "with-a-block"])
@pytest.mark.parametrize("cmdline", KINDS)
def test_range_used_while_the_block_was_absent_is_another(
    machine: Machine, cmdline: str, formats: bool
) -> None:
    """Another kernel was loaded over a part of the image, where no word could be consumed. It may
    have been cut before it laid out a block."""
    take_away_the_block(machine, cmdline)
    assert "GO: cold 16 no-block" in machine.run()
    if formats:
        machine.put_block_in_second()
        assert "GO: resume sequence 2" in machine.run()
    machine.first = True
    text = machine.run()
    assert "GO: cold 35 memory-differs sequence 7" in text
    assert machine.consumed() == 7


@pytest.mark.parametrize("cmdline", KINDS)
def test_range_is_another_as_soon_as_a_block_is_written_into_it(
    machine: Machine, cmdline: str
) -> None:
    """The boot without the first range ends before it loads a kernel, as by a cut."""
    take_away_the_block(machine, cmdline)
    machine.cmdline.write_text("x" * 4096)
    with machine.running() as it:
        it.wait("GO: the command line has 4096 bytes")
    machine.first = True
    machine.cmdline.write_text(cmdline)
    assert "GO: cold 35 memory-differs sequence 7" in machine.run()


@pytest.mark.parametrize("cmdline", KINDS)
def test_image_of_another_range_is_closed_by_a_cold_boot(machine: Machine, cmdline: str) -> None:
    """Both ranges have an image that could be entered; the first has the block. The kernel that
    boots cold may use the second."""
    take_away_the_block(machine, cmdline)
    machine.run()
    machine.put_block_in_second()
    machine.first = True
    assert "GO: cold 35 memory-differs sequence 7" in machine.run()
    machine.first = False
    assert "GO: cold 16 no-block" in machine.run()


def test_what_programs_store_in_another_range_is_no_difference(machine: Machine) -> None:
    """Without memtype= it is theirs, from its first byte on."""
    machine.add_second()
    machine.run()
    machine.put_image(7, 6)
    assert machine.second is not None
    with machine.second.open("r+b") as file:
        file.write(b"a file system")
    assert "GO: resume sequence 7" in machine.run()


def test_image_is_found_if_a_larger_range_was_added(machine: Machine) -> None:
    """It is not entered, and not later either: a kernel has run meanwhile."""
    machine.run()
    machine.put_image(7, 6)
    machine.add_second(2 * REGION_BYTES)
    assert "GO: cold 35 memory-differs sequence 7" in machine.run()
    assert "GO: cold 16 no-block" in machine.run(), "the next block is in the larger one"
    machine.second = None
    assert "GO: cold 16 no-block" in machine.run(), "and takes the place of this one"


def test_image_is_held_if_a_larger_range_was_added(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6, HOLD, 60)
    machine.add_second(2 * REGION_BYTES)
    with machine.running() as it:
        it.wait("GO: hold 35 memory-differs sequence 7")
    machine.second = None
    assert "GO: resume sequence 7" in machine.run()


def test_health_of_an_nvdimm_is_no_difference(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6)
    machine.unarmed = True  # a flag of the NFIT: the next save would fail
    assert "GO: resume sequence 7" in machine.run()


def test_disk_that_is_ready_in_time_resumes(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6, HOLD, 60)
    os.truncate(machine.disk, 0)
    with machine.running() as it:
        it.wait("GO: hold 38 disk-differs sequence 7")
        it.wait("GO: found    type 8")
        assert struct.unpack("<I", machine.read(0x400C, 4)) == (2,), "the boot note says hold"
        it.resize_disk(1 << 20)
        it.wait("STUB entered")
        assert "GO: resume sequence 7" in it.text
    assert struct.unpack("<I", machine.read(0x400C, 4)) == (1,)
    assert struct.unpack("<I", machine.read(0x4098, 4)) == (38,), "and why it was held"
    assert machine.consumed() == 7


def test_held_image_is_kept_until_there_is_an_answer(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6, HOLD, 1)
    machine.serial = None
    with machine.running() as it:
        it.wait("GO: hold 36 pci-differs sequence 7")
        it.type("cold\r")  # nobody has asked
        it.wait("type cold and Enter")
        it.type("noise\rcold feet\r\n")
        time.sleep(3)
        assert "entered" not in it.text
    assert machine.consumed() == 6
    with machine.running() as it:  # after any loss of power
        it.wait("type cold and Enter")
        it.type("cold\r")
        it.wait("KERNEL entered")
        assert "GO: cold 36 pci-differs sequence 7" in it.text
    assert machine.consumed() == 7


def test_held_image_is_given_up_if_that_is_its_policy(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6, HOLD_COLD, 1)
    machine.serial = None
    text = machine.run()
    assert "GO: hold 36 pci-differs sequence 7" in text
    assert "GO: without an answer it is given up in 1 s" in text
    assert "GO: no answer in 1 s" in text
    assert "GO: cold 36 pci-differs sequence 7" in text
    assert machine.consumed() == 7


def test_requested_cold_boot_holds_nothing(machine: Machine) -> None:
    machine.run()
    machine.put_image(7, 6, HOLD, 60)
    machine.serial = None
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


def test_wire_is_served_while_an_image_is_held(machine: Machine, tmp_path: Path) -> None:
    """The supply does not repeat what the loader has echoed: the kernel gets it from the note."""
    with_supply(machine, tmp_path / "wire1", [])
    machine.run()
    machine.put_image(7, 6, HOLD_COLD, 1)
    machine.serial = None
    statuses = [status(True, 3, 1), status(True, 2, 2), status(False, 2, 3)]
    supply = with_supply(machine, tmp_path / "wire2", statuses)
    assert "GO: cold 36 pci-differs sequence 7" in machine.run()
    assert machine.read(0x4090, 4)[0] == statuses[-1]
    assert len(supply.echoes) >= len(statuses)


def test_loader_continues_without_a_supply_that_answers(machine: Machine, tmp_path: Path) -> None:
    with_supply(machine, tmp_path / "wire1", [])
    machine.run()
    machine.put_image(7, 6)
    with_supply(machine, tmp_path / "wire2", [])
    text = machine.run()
    assert "GO: no supply: no status for 1000 ms" in text
    assert "GO: resume sequence 7" in text

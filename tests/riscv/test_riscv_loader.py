# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on RISC-V, too, an image is entered once, and by no other machine and no other kernel; the
difference has a name.

Method: one stopped machine, copied; each trial starts a copy of its media with one difference and
reads the loader's note.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import run
from lab.machine import Machine
from lab.machine.config import RISCV_CPU_MODEL, MachineConfig
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.files import MachineFiles
from lab.machine.qemu_parts import BootOptions
from lab.machine.qemu_riscv import make_tree
from lab.setup.products import Kernel, Loader, need
from lab.testbed.machines import make_config
from lab.verdict import BrokenError
from tests.riscv.harts import booted_riscv
from tests.support.claims import BOOT_LIMIT_S, machine_name
from tests.support.proofs import must_be_found

HARTS = 2
BRIDGE = "pcie-root-port,id=rp0,chassis=1,addr=5"
BEHIND = "virtio-rng-pci,bus=rp0"
OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: reason, fields of the configuration, options of the boot
    "one hart": ("COLD_CPU_DIFFERS", {}, {"cpus": 1}),
    "more harts": ("COLD_CPU_DIFFERS", {}, {"cpus": 4}),
    "harts that can do less": (
        "COLD_ISA_DIFFERS",
        {"cpu_model": RISCV_CPU_MODEL.replace("xtheadcmo=on", "xtheadcmo=off")},
        {},
    ),
    "one device more": ("COLD_PCI_DIFFERS", {"devices": (BRIDGE, BEHIND, "virtio-rng-pci")}, {}),
    "another device behind a bridge": (
        "COLD_PCI_DIFFERS",
        {"devices": (BRIDGE, "virtio-gpu-pci,bus=rp0")},
        {},
    ),
    "another disk": ("COLD_DISK_DIFFERS", {}, {"disk_serial": "rem-root-2"}),
}

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def stopped() -> Iterator[tuple[Machine, Path]]:
    """A machine that has stopped, and a copy of its NVRAM."""
    with booted_riscv("rv-loader", HARTS, devices=(BRIDGE, BEHIND)) as machine:
        machine.guest.close()
        assert machine.cut().stopped
        kept = machine.files.directory / "kept.nvram"
        _copy(machine.files.nvram(machine.config), kept)
        yield machine, kept


def _copy(source: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    shutil.copyfile(source, to)


def decided(machine: Machine, **options: Any) -> str:
    """The decision of one boot, which ends without a Stop."""
    machine.resume(**options)
    note = machine.wait_boot_note(120.0)
    machine.cut(UNANNOUNCED)
    return note.reason


@pytest.mark.parametrize("name", OTHERS)
def test_another_machine_of_riscv_is_refused(stopped: tuple[Machine, Path], name: str) -> None:
    machine, kept = stopped
    own, (reason, config, options) = machine.config, OTHERS[name]
    _copy(kept, machine.files.nvram(own))
    machine.config = replace(own, **config)
    try:
        assert decided(machine, **options) == reason
    finally:
        machine.config = own
    assert decided(machine) == "COLD_ALREADY_CONSUMED"


BUILD_ID = struct.pack("<3I4s", 4, 20, 3, b"GNU")  # the head of a note with one


def another_build(kernel: bytes) -> bytes:
    del kernel
    return need(Kernel("riscv64-mutants")).bz_image.read_bytes()


def another_build_id(kernel: bytes) -> bytes:
    """It is where the last boot found it."""
    image = bytearray(kernel)
    image[image.index(BUILD_ID) + len(BUILD_ID)] ^= 1
    return bytes(image)


def no_build_id(kernel: bytes) -> bytes:
    return kernel.replace(BUILD_ID, bytes(len(BUILD_ID)))


@pytest.mark.parametrize("other", [another_build, another_build_id, no_build_id])
def test_another_kernel_of_riscv_is_refused(
    stopped: tuple[Machine, Path], other: Callable[[bytes], bytes]
) -> None:
    machine, kept = stopped
    _copy(kept, machine.files.nvram(machine.config))
    kernel = machine.files.directory / "other-kernel"
    kernel.write_bytes(other(machine.config.kernel.read_bytes()))
    assert decided(machine, kernel=kernel) == "COLD_KERNEL_DIFFERS"


def another_tree(config: MachineConfig, files: MachineFiles, options: BootOptions) -> None:
    """What firmware tells of the board, and nothing else that is described."""
    make_tree(config, files, options)
    run.run(["fdtput", "-t", "s", str(files.tree), "/", "model", "another board"])


def check_difference_is_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, mutant: str | None = None
) -> str:
    """Inner check: the next boot has another board, or another device behind a bridge, and does not
    enter the image. Return the reason."""
    loader = need(Loader(mutants=True, isa="riscv64"))
    config = make_config(machine_name("rv-bugs"), HARTS, isa="riscv64")
    config = replace(config, loader=loader, devices=(BRIDGE, BEHIND))
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot(mutant=mutant)
        machine.wait_up(BOOT_LIMIT_S)
        machine.guest.close()
        assert machine.cut().stopped
        if name == "another board":
            monkeypatch.setattr("lab.machine.machine.make_tree", another_tree)
        else:
            machine.config = replace(config, devices=OTHERS[name][1]["devices"])
        reason = decided(machine, mutant=mutant)
    if reason == "RESUME":
        raise BrokenError("differs", f"{name}: the image was entered")
    return reason


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("another board", "COLD_TREE_DIFFERS"),
        ("another device behind a bridge", "COLD_PCI_DIFFERS"),
    ],
)
def test_difference_of_riscv_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    assert check_difference_is_seen(monkeypatch, name) == reason


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        ("tree-ignored", "another board"),
        ("bridge-unnumbered", "another device behind a bridge"),
    ],
)
def test_difference_of_riscv_that_is_not_seen_is_found(
    monkeypatch: pytest.MonkeyPatch, mutant: str, name: str
) -> None:
    with must_be_found(mutant):
        check_difference_is_seen(monkeypatch, name, mutant)


def test_same_machine_of_riscv_enters_it_once(stopped: tuple[Machine, Path]) -> None:
    """The control."""
    machine, kept = stopped
    _copy(kept, machine.files.nvram(machine.config))
    assert decided(machine) == "RESUME"
    assert decided(machine) == "COLD_ALREADY_CONSUMED"

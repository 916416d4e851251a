# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Places in Stop and Go: how they are written, and their marks in the plugin."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import format as fmt
from lab.errors import Exit, InfraError, RemError, UsageError
from lab.machine import Machine, MachineConfig
from lab.machine.cut_points import (
    UNKNOWN_PC,
    attach_cut_points,
    clock_for,
    make_spec,
    resume_and_cut,
)
from lab.machine.places import GO_LOADER_PHASES, GO_PHASES, PHASES, STOP_PHASES, Place
from lab.machine.plugin import STOPPED_OUT
from lab.machine.supply import HostPacedClock
from lab.machine.symbols import BEGIN_BYTES, PE_ENTRY_AT, PE_OFFSET_AT, loader_begin

OF_LOADER = tuple(GO_LOADER_PHASES)


def test_place_is_a_phase_and_instructions() -> None:
    assert Place.parse("commit+300", STOP_PHASES, "--at") == Place("commit", 300)
    assert Place.parse("park", STOP_PHASES, "--at") == Place("park", 0)
    assert str(Place.parse("consume+4", GO_PHASES, "--cut-at")) == "consume+4"


@pytest.mark.parametrize("text", ["", "commit+", "commit-1", "commit+1ms", "consume+1", "Commit"])
def test_wrong_place_names_the_valid_ones(text: str) -> None:
    with pytest.raises(UsageError, match="stop, park, devices, commit") as caught:
        Place.parse(text, STOP_PHASES, "--at")
    assert caught.value.exit_code == Exit.USAGE


def test_every_phase_has_a_mark_and_stopped_is_the_last() -> None:
    assert len(set(PHASES)) == len(PHASES)
    assert [Place(phase, 0).mark() for phase in PHASES] == list(range(len(PHASES)))
    assert len(PHASES) + 1 <= fmt.CONST["REM_PLUGIN_MARKS_MAX"]


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    """A bzImage with its System.map, and a loader: symbols only."""
    source = "void consume(void) {} void image_enter(void) {}"
    loader = tmp_path / "loader.elf"
    command = ["gcc", "-nostdlib", "-static", "-Wl,-e,consume", "-x", "c", "-o", loader, "-"]
    subprocess.run(command, input=source.encode(), check=True)
    names = [name for phase, name in (STOP_PHASES | GO_PHASES).items() if phase not in {"enter"}]
    lines = [f"ffffffff8100000{n} T {name}\n" for n, name in enumerate(names)]
    (tmp_path / "System.map").write_text("".join(lines))
    (tmp_path / "bzImage").touch()
    return tmp_path / "bzImage", loader


def test_plugin_gets_all_phases_in_order(parts: tuple[Path, Path]) -> None:
    kernel, loader = parts
    spec = make_spec(Path("plugin.so"), kernel, loader, icount=False)
    assert spec.pcs[:4] == tuple(0xFFFFFFFF81000000 + n for n in range(4))
    assert spec.pcs[PHASES.index("consume")] < 1 << 32, "of the loader, not of the kernel"
    assert spec.outs == (STOPPED_OUT,)
    assert spec.cut
    assert spec.quantum == 0
    assert make_spec(Path("plugin.so"), kernel, loader, icount=True).quantum > 0


def fake_efi(folder: Path, code: bytes) -> Path:
    """A loader beside which loader.efi has this code at its entry."""
    header, entry = 0x40, 0x100
    raw = bytearray(entry)
    struct.pack_into("<I", raw, PE_OFFSET_AT, header)
    struct.pack_into("<I", raw, header + PE_ENTRY_AT, entry)
    (folder / "loader.efi").write_bytes(bytes(raw) + code)
    return folder / "loader.elf"


def test_loader_of_uefi_is_known_by_its_code(tmp_path: Path) -> None:
    code = bytes(range(BEGIN_BYTES))
    assert loader_begin(fake_efi(tmp_path, code + b"and more")) == code
    with pytest.raises(InfraError, match="no code at its entry"):
        loader_begin(fake_efi(tmp_path, code[1:]))
    (tmp_path / "loader.efi").write_bytes(b"MZ")
    with pytest.raises(InfraError, match=r"loader\.efi: no UEFI application of ours"):
        loader_begin(tmp_path / "loader.elf")


def test_firmware_is_left_out_by_icount_and_hides_the_loaders_phases(
    parts: tuple[Path, Path],
) -> None:
    kernel, loader = parts
    code = b"\x49" * BEGIN_BYTES
    fake_efi(loader.parent, code)
    spec = make_spec(Path("plugin.so"), kernel, loader, icount=True, firmware=True)
    assert spec.begin == code
    assert f",begin={code.hex()}" in spec.argument(Path("ctl"))
    known = [pc for phase, pc in zip(PHASES, spec.pcs, strict=True) if phase not in OF_LOADER]
    assert [spec.pcs[PHASES.index(phase)] for phase in OF_LOADER] == [UNKNOWN_PC] * 2
    assert all(pc > 1 << 32 for pc in known)
    for icount, firmware in ((False, True), (True, False)):
        other = make_spec(Path("plugin.so"), kernel, loader, icount, firmware=firmware)
        assert "begin=" not in other.argument(Path("ctl"))


@pytest.mark.parametrize("phase", GO_LOADER_PHASES)
def test_places_of_a_loader_whose_address_is_unknown_are_refused(phase: str) -> None:
    firmware = SimpleNamespace(firmware_code=Path("CODE.fd"))
    machine: Any = SimpleNamespace(config=firmware, plugin=object())
    with pytest.raises(UsageError, match="firmware decides where the loader is.*: choose.* go$"):
        resume_and_cut(machine, Place(phase, 0), limit_s=1)


def test_kernel_without_its_map_is_one_line(parts: tuple[Path, Path]) -> None:
    kernel, loader = parts
    (kernel.parent / "System.map").unlink()
    with pytest.raises(InfraError, match=r"cannot read .*System\.map"):
        make_spec(Path("plugin.so"), kernel, loader, icount=False)
    (kernel.parent / "System.map").write_text("0 T something\n")
    with pytest.raises(RemError, match="has no function rem_stop_begin"):
        make_spec(Path("plugin.so"), kernel, loader, icount=False)


def test_machine_without_cut_points_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REM_STATE", str(tmp_path))
    kernel = tmp_path / "kernel"
    kernel.touch()
    config = MachineConfig(name="m", kernel=kernel, network="none")
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        assert machine.plugin is None
        assert clock_for(machine, None) is None
        with pytest.raises(UsageError, match="rem run --cut-points"):
            clock_for(machine, Place("commit", 0))


@pytest.mark.parametrize("icount", [False, True])
def test_only_icount_makes_a_hold_up_guest_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, icount: bool
) -> None:
    monkeypatch.setenv("REM_STATE", str(tmp_path))
    kernel = tmp_path / "kernel"
    kernel.touch()
    config = MachineConfig(name="m", kernel=kernel, network="none", icount=icount, cut_points=True)
    assert "nokaslr" in config.cmdline().split()
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        assert machine.plugin is not None
        assert isinstance(machine.clock, HostPacedClock) is not icount

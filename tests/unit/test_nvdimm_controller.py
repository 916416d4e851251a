# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An NVDIMM-N's controller without a machine: what commands do to DRAM and flash.

Method: the wire is a socket pair, and the test is the machine at its other end.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import format as fmt
from lab.errors import UsageError
from lab.machine.battery import BatteryMemory
from lab.machine.nvdimm import Health, NvdimmController, NvdimmFiles, State, status_byte
from lab.power.model import PowerModel

BYTES = 8 << 20
ANSWER_LIMIT_S = 20.0
QUERY, RESTORE, ERASE, SAVE = (
    int(fmt.CONST[f"REM_NVDIMM_{name}"]) for name in ("QUERY", "RESTORE", "ERASE", "SAVE")
)


class Bench:
    """A module, and the machine's end of its wire."""

    def __init__(self, folder: Path, size_bytes: int = BYTES) -> None:
        self.bytes = size_bytes
        self.files = NvdimmFiles(folder / "dram", folder / "flash", folder / "state.json")
        self.controller = self.another()
        self.wire: socket.socket | None = None

    def another(self) -> NvdimmController:
        """The module as the next process of the laboratory would find it."""
        return NvdimmController(self.files, self.bytes, PowerModel.ready())

    def power_on(self) -> None:
        self.controller.power_on()
        ours, theirs = socket.socketpair()
        self.controller.serve(ours)
        self.wire = theirs
        self.wire.settimeout(ANSWER_LIMIT_S)

    def ask(self, command: int) -> State:
        assert self.wire is not None
        self.wire.send(bytes([command]))
        return self.state(self.wire.recv(1)[0])

    @staticmethod
    def state(byte: int) -> State:
        assert byte.bit_count() % 2 == 0
        assert byte & fmt.CONST["REM_NVDIMM_ANSWER"]
        mask, shift = fmt.CONST["REM_NVDIMM_STATE_MASK"], fmt.CONST["REM_NVDIMM_STATE_SHIFT"]
        return State((byte & mask) >> shift)

    def settled(self, command: int) -> State:
        state, end_s = self.ask(command), time.monotonic() + ANSWER_LIMIT_S
        while state is State.BUSY and time.monotonic() < end_s:
            state = self.ask(QUERY)
        return state

    def store(self, text: bytes) -> None:
        with self.files.dram.open("r+b") as dram:
            dram.write(text)

    def loaded(self) -> bytes:
        with self.files.dram.open("rb") as dram:
            return dram.read(4)

    def power_off(self, save: bool) -> None:
        if save:
            assert self.wire is not None
            self.wire.send(bytes([SAVE]))  # the machine's last act
        self.controller.power_off()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.controller.power_off()


def test_dram_is_blank_until_a_restore_is_over(bench: Bench) -> None:
    bench.power_on()
    assert bench.settled(RESTORE) is State.EMPTY
    bench.store(b"kept")
    bench.power_off(save=True)
    assert bench.loaded() == bytes(4)
    bench.power_on()
    assert bench.ask(QUERY) is State.IMAGE
    assert bench.loaded() == bytes(4)
    assert bench.settled(RESTORE) is State.RESTORED
    assert bench.loaded() == b"kept"
    assert bench.files.dram.stat().st_size == BYTES


def test_without_the_command_nothing_is_saved_and_an_old_image_stays(bench: Bench) -> None:
    bench.power_on()
    bench.store(b"old!")
    bench.power_off(save=True)
    bench.power_on()
    bench.store(b"new!")
    bench.power_off(save=False)
    bench.power_on()
    assert bench.settled(RESTORE) is State.RESTORED
    assert bench.loaded() == b"old!", "hence the erase before an image is entered"


def test_save_outlives_a_reset_and_is_restored_over_dram_that_was_changed(bench: Bench) -> None:
    """A reset is nothing that the controller could see: the machine asks again."""
    bench.power_on()
    bench.store(b"kept")
    assert bench.ask(SAVE) is State.BUSY
    assert bench.ask(RESTORE) is State.BUSY, "not until the save has ended"
    assert bench.settled(QUERY) is State.IMAGE
    bench.store(b"else")
    with bench.files.dram.open("r+b") as dram:
        dram.seek(BYTES // 2)
        dram.write(b"flash has zeros here")
    assert bench.settled(RESTORE) is State.RESTORED
    assert bench.files.dram.read_bytes() == b"kept".ljust(BYTES, b"\0")
    assert bench.settled(ERASE) is State.EMPTY
    bench.store(b"run!")
    bench.power_off(save=False)
    bench.power_on()
    assert bench.settled(RESTORE) is State.EMPTY, "that save was over: memory is not saved again"


def test_save_that_the_power_does_not_outlive_needs_the_capacitor(bench: Bench) -> None:
    bench.power_on()
    bench.controller.set_charge(0)
    bench.store(b"kept")
    assert bench.ask(SAVE) is State.BUSY
    assert bench.settled(QUERY) is State.IMAGE, "with the machine's power it needs no charge"
    bench.power_off(save=False)
    bench.power_on()
    assert bench.settled(RESTORE) is State.RESTORED
    assert bench.loaded() == b"kept"


def test_erased_flash_is_not_restored(bench: Bench) -> None:
    bench.power_on()
    bench.store(b"kept")
    bench.power_off(save=True)
    bench.power_on()
    assert bench.settled(RESTORE) is State.RESTORED
    assert bench.settled(ERASE) is State.EMPTY
    assert bench.loaded() == b"kept", "DRAM has power"
    bench.power_off(save=False)
    bench.controller = bench.another()
    bench.power_on()
    assert bench.settled(RESTORE) is State.EMPTY


def test_save_without_the_energy_is_partial_for_the_next_process_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 1 << 30)  # charged again in seconds, not at once
    bench.power_on()
    need_pj = PowerModel.ready().ask("nvdimm", name="agiga", bytes=bench.bytes)["save_pj"]
    bench.controller.set_charge(need_pj // 2)
    assert bench.controller.health is Health.CHARGING
    bench.store(b"kept")
    bench.power_off(save=True)
    bench.controller = bench.another()
    bench.power_on()
    assert 0 < bench.files.flash.stat().st_size < bench.bytes
    assert bench.settled(RESTORE) is State.PARTIAL
    assert bench.loaded() == bytes(4)
    bench.controller.power_off()


def test_noise_on_the_wire_is_no_command(bench: Bench) -> None:
    bench.power_on()
    bench.store(b"kept")
    assert bench.wire is not None
    commands = {QUERY, RESTORE, ERASE, SAVE}
    for command in commands:
        for bit in range(8):
            assert command ^ 1 << bit not in commands, "one flipped bit makes another command"
    bench.wire.send(bytes(byte for byte in range(256) if byte not in commands))
    assert bench.ask(QUERY) is State.EMPTY
    bench.power_off(save=False)
    assert not bench.files.flash.exists()


def test_unreadable_flash_is_reported(bench: Bench) -> None:
    bench.power_on()
    bench.power_off(save=True)
    bench.files.flash.unlink()
    os.mkdir(bench.files.flash)
    bench.power_on()
    assert bench.settled(RESTORE) is State.FAILED
    os.rmdir(bench.files.flash)


def test_status_bytes_differ_and_check() -> None:
    bytes_ = {status_byte(state, health) for state in State for health in Health}
    assert len(bytes_) == len(State) * len(Health)
    assert all(byte.bit_count() % 2 == 0 for byte in bytes_)
    assert not any(byte & fmt.CONST["REM_NVDIMM_FROM_MACHINE"] for byte in bytes_)


def test_impossible_nvdimm_is_one_line(tmp_path: Path) -> None:
    files = NvdimmFiles(tmp_path / "dram", tmp_path / "flash", tmp_path / "state.json")
    with pytest.raises(UsageError, match="NVDIMM"):
        NvdimmController(files, 0, PowerModel.ready())


def test_battery_keeps_memory_for_its_time_and_not_longer(tmp_path: Path) -> None:
    files = NvdimmFiles(tmp_path / "dram", tmp_path / "flash", tmp_path / "state.json")
    files.dram.write_bytes(b"kept".ljust(BYTES, b"\0"))
    battery = BatteryMemory(files, 1 << 30, PowerModel.ready())
    hours = battery.retention_ns // (3600 * 10**9)
    assert hours > 1
    assert battery.power_on(10**9), "never off before"
    battery.power_off()
    assert battery.power_on((hours - 1) * 3600)
    assert files.dram.read_bytes()[:4] == b"kept"
    battery.power_off()
    assert not battery.power_on((hours + 1) * 3600)
    assert not any(files.dram.open("rb").read(4096))
    assert files.dram.stat().st_size == 1 << 30

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An NVDIMM-N's controller: NVRAM that is DRAM, saved to flash on command by its own energy.

The machine orders save, restore and erase over the wire of format/rem_nvdimm.h. The energy of a
save, and whether the capacitor has it, are computed by models/power/src/nvdimm.rs. The files:

    nvram.img   DRAM: blank at each power-on; with volatile caches, what they have written back to
                it, which is all that a save saves
    flash.img   what the last save left, until it is erased
    nvdimm.json charge, cycles and what flash holds

Invariants: no byte of DRAM survives a loss of power except through a save; flash is erased before
a new save; a restore never changes flash. A save that the power outlives takes the model's time,
and a reset does not end it; one that the power does not outlive ends with the module's own energy,
at once. Restore and erase take the host's time.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from lab import format as fmt
from lab.errors import RemError
from lab.power.model import PowerModel
from lab.run import run

KIND = "agiga"
ANSWER_POLL_S = 0.2


class State(IntEnum):
    BUSY = fmt.VIEWS.rem_nvdimm_state.REM_NVDIMM_BUSY
    EMPTY = fmt.VIEWS.rem_nvdimm_state.REM_NVDIMM_EMPTY
    IMAGE = fmt.VIEWS.rem_nvdimm_state.REM_NVDIMM_IMAGE
    PARTIAL = fmt.VIEWS.rem_nvdimm_state.REM_NVDIMM_PARTIAL
    RESTORED = fmt.VIEWS.rem_nvdimm_state.REM_NVDIMM_RESTORED
    FAILED = fmt.VIEWS.rem_nvdimm_state.REM_NVDIMM_FAILED


class Health(IntEnum):
    WORN = fmt.VIEWS.rem_nvdimm_health.REM_NVDIMM_WORN
    CHARGING = fmt.VIEWS.rem_nvdimm_health.REM_NVDIMM_CHARGING
    READY = fmt.VIEWS.rem_nvdimm_health.REM_NVDIMM_READY


def status_byte(state: State, health: Health) -> int:
    """As the wire has it, with its parity."""
    byte = (
        fmt.CONST["REM_NVDIMM_ANSWER"]
        | health << fmt.CONST["REM_NVDIMM_HEALTH_SHIFT"]
        | state << fmt.CONST["REM_NVDIMM_STATE_SHIFT"]
    )
    return int(byte | (fmt.CONST["REM_NVDIMM_PARITY"] if byte.bit_count() % 2 else 0))


@dataclass(frozen=True)
class NvdimmFiles:
    """Of one module."""

    dram: Path
    flash: Path
    state: Path
    memory: Path | None = None  # with caches: DRAM as CPUs read it, while the machine runs


class NvdimmController:
    """One module, through all boots of its machine."""

    def __init__(self, files: NvdimmFiles, size_bytes: int, model: PowerModel) -> None:
        self.files = files
        self._bytes = size_bytes
        self._model = model
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._save_ordered = False
        self._saving: threading.Timer | None = None  # to the end of a save with power
        self._save_s = model.ask("nvdimm", name=KIND, bytes=size_bytes)["save_ns"] / 1e9
        self._powered_s: float | None = None  # since when the capacitor is charged
        self._ready_at_s: float | None = None  # None: never, it is worn
        self.state = State.EMPTY
        raw = files.state.read_text(encoding="utf-8") if files.state.exists() else "null"
        self._module: Any = json.loads(raw)
        if self._module is None:
            self._event("look")

    def _event(self, event: Any) -> dict[str, Any]:
        """Let the model change the module, and keep the new state."""
        answer: dict[str, Any] = self._model.ask(
            "nvdimm-event", name=KIND, bytes=self._bytes, state=self._module, event=event
        )
        self._module = answer["state"]
        new = self.files.state.with_suffix(".new")
        new.write_text(json.dumps(self._module), encoding="utf-8")
        new.replace(self.files.state)
        wait_ns = answer["ready_in_ns"]
        self._ready_at_s = None if wait_ns is None else time.monotonic() + wait_ns / 1e9
        return answer

    def set_charge(self, charge_pj: int) -> None:
        """For tests: set the charge of the capacitor."""
        with self._lock:
            self._module["charge"] = charge_pj
            self._event("look")
            self._powered_s = time.monotonic()

    @property
    def health(self) -> Health:
        if self._ready_at_s is None:
            return Health.WORN
        return Health.READY if time.monotonic() >= self._ready_at_s else Health.CHARGING

    def ready_in_s(self) -> float:
        """Time until a save can be completed; 0 for a worn module, which no wait helps."""
        return 0.0 if self._ready_at_s is None else max(0.0, self._ready_at_s - time.monotonic())

    def power_on(self) -> None:
        """Before QEMU maps it: DRAM is blank, and the capacitor charges from now on."""
        self.files.dram.unlink(missing_ok=True)
        self.files.dram.touch(mode=0o600)
        os.truncate(self.files.dram, self._bytes)
        self._save_ordered = False
        self._event("look")
        self._powered_s = time.monotonic()
        flash = self._module["flash"]
        if flash == "whole":
            self.state = State.IMAGE
        else:
            self.state = State.EMPTY if flash == "erased" else State.PARTIAL

    def serve(self, end: socket.socket) -> None:
        """The machine's end of the wire is connected."""
        self._socket, self._closing = end, False
        self._thread = threading.Thread(target=self._serve, name="rem-nvdimm", daemon=True)
        self._thread.start()

    def power_off(self) -> None:
        """The power failed: do what was ordered with the module's own energy."""
        self._closing = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._socket is not None:
            self._drain()
            self._socket.close()
            self._socket = None
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        if self._powered_s is None:
            return  # it was off already
        with self._lock:
            charged_ns = int((time.monotonic() - self._powered_s) * 1e9)
            self._powered_s = None
            self._event({"charge": {"time_ns": charged_ns}})
            if self._save_ordered:
                self._save()
        self.files.dram.unlink(missing_ok=True)
        self.files.dram.touch(mode=0o600)
        os.truncate(self.files.dram, self._bytes)

    def _save(self) -> None:
        self.files.flash.unlink(missing_ok=True)
        flash = self._event("save")["state"]["flash"]
        if flash == "erased":
            return
        self.files.dram.replace(self.files.flash)
        if flash != "whole":
            os.truncate(self.files.flash, int(flash["partial"]["bytes"]))

    def _begin_save(self) -> None:
        """Until its end, or until the power fails, whatever the machine does."""
        self._save_ordered = True
        self.state = State.BUSY
        self._saving = threading.Timer(self._save_s, self._end_save)
        self._saving.daemon = True
        self._saving.start()

    def _end_save(self) -> None:
        """The machine has had power all the time."""
        with self._lock:
            if not self._save_ordered or self._powered_s is None:
                return  # the power failed meanwhile
            try:
                self.files.flash.unlink(missing_ok=True)
                run(
                    ["cp", "--sparse=always", self.files.dram, self.files.flash],
                    what="saving an NVDIMM",
                )
                self._event("save-with-power")
                self.state = State.IMAGE
            except (RemError, OSError):
                self.state = State.FAILED
            self._save_ordered = False

    def _drain(self) -> None:
        """Read the bytes that the machine sent before it ended."""
        assert self._socket is not None
        while select.select([self._socket], [], [], 0)[0]:
            data = self._receive()
            if not data:
                return
            for byte in data:
                self._command(byte)

    def _receive(self) -> bytes:
        assert self._socket is not None
        try:
            return self._socket.recv(64)
        except OSError:
            return b""

    def _serve(self) -> None:
        assert self._socket is not None
        while not self._closing:
            if not select.select([self._socket], [], [], ANSWER_POLL_S)[0]:
                continue
            data = self._receive()
            if not data:
                return
            for byte in data:
                if self._command(byte):
                    self._answer()

    def _answer(self) -> None:
        assert self._socket is not None
        try:
            self._socket.send(bytes([status_byte(self.state, self.health)]))
        except OSError:
            self._closing = True  # QEMU has ended; power_off() comes

    def _command(self, byte: int) -> bool:
        """Whether it was a command. A command that is done already is not repeated."""
        if byte == fmt.CONST["REM_NVDIMM_RESTORE"]:
            if self.state is State.IMAGE:
                self.state = State.BUSY
                threading.Thread(target=self._restore, daemon=True).start()
        elif byte == fmt.CONST["REM_NVDIMM_ERASE"]:
            if self.state not in (State.BUSY, State.EMPTY):
                self.state = State.BUSY
                threading.Thread(target=self._erase, daemon=True).start()
        elif byte == fmt.CONST["REM_NVDIMM_SAVE"]:
            if self.state is not State.BUSY:
                self._begin_save()
        else:
            return bool(byte == fmt.CONST["REM_NVDIMM_QUERY"])
        return True

    def _restore(self) -> None:
        try:
            # Into the file that QEMU has mapped; with caches that is not the one they write to.
            memory = self.files.memory
            for target in (self.files.dram, memory if memory and memory.exists() else None):
                if target is not None:
                    self._copy_flash(target)
            self.state = State.RESTORED
        except (RemError, OSError):
            self.state = State.FAILED

    def _copy_flash(self, target: Path) -> None:
        # DRAM is not blank if it has never been without power, and the copy leaves out zeros.
        run(
            ["fallocate", "--punch-hole", "--offset", "0", "--length", str(self._bytes), target],
            what="blanking an NVDIMM",
        )
        run(
            ["dd", f"if={self.files.flash}", f"of={target}", "bs=4M",
             "conv=sparse,notrunc", "status=none"],
            what="restoring an NVDIMM",
        )  # fmt: skip

    def _erase(self) -> None:
        try:
            with self._lock:
                self.files.flash.unlink(missing_ok=True)
                self._event("erase")
            self.state = State.EMPTY
        except (RemError, OSError):
            self.state = State.FAILED

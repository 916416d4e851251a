# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The lab's side of the QEMU plugin: its arguments and its control file.

Layout and meaning of every field: format/rem_plugin_ctl.h. What the plugin can do and what its
clock leaves out: machine/README.md.

    spec = PluginSpec(library, cut=True, outs=(STOPPED_OUT,))
    config = MachineConfig(name, ..., icount=True, plugin=spec.argument(ctl_path(name)))
    machine = Machine.create(config)
    control = attach(machine, spec)     # plugin_clock.py: now a hold-up is guest time
    machine.boot(); control.wait_ready()
    before = control.read()             # exact while the VM is stopped
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import format as fmt
from lab.errors import HangError, InfraError, RemError
from lab.machine.files import MachineFiles

CTL = "rem_plugin_ctl"
CTL_BYTES = int(fmt.CONST["REM_PLUGIN_CTL_BYTES"])
NONE = int(fmt.CONST["REM_PLUGIN_NONE"])
Command = fmt.VIEWS.rem_plugin_command
PluginError = fmt.VIEWS.rem_plugin_error
PluginCut = fmt.VIEWS.rem_plugin_cut
Honour = fmt.VIEWS.rem_plugin_honour
CACHE_FIELDS = tuple(fmt.VIEWS.rem_plugin_cache.fields)
MEMORY_FIELDS = tuple(fmt.VIEWS.rem_plugin_memory.fields)
# The byte that ends every Stop (port, byte).
STOPPED_OUT = (int(fmt.CONST["REM_PWR_PORT"]), int(fmt.CONST["REM_PWR_STOPPED"]))

SYS_FUTEX = 202  # x86-64
FUTEX_WAKE = 1
# The plugin answers within a millisecond; this bounds a crowded host.
ANSWER_LIMIT_S = 30.0
ANSWER_POLL_S = 0.0002
MARK_POLL_S = 0.002
# A machine whose vCPUs are all halted with no timer set has no guest time to wait for.
STANDSTILL_LIMIT_S = 120.0


@dataclass(frozen=True)
class PluginSpec:
    """The plugin's configuration. Marks are numbered: pcs, stopped or outs, the first user program.

    *stopped*: the address at which the machine reports that it has stopped, where that is no port.
    """

    library: Path
    count: bool = True
    cut: bool = False
    quantum: int = 0  # instructions in a vCPU's turn under icount; 0: QEMU's default
    pcs: tuple[int, ...] = ()
    stopped: int | None = None
    outs: tuple[tuple[int, int], ...] = ()  # (port, byte)
    user: bool = False
    begin: bytes = b""  # nothing is modelled before code that begins like this is executed

    def argument(self, ctl: Path) -> str:
        """For QEMU's -plugin."""
        words = [str(self.library).replace(",", ",,"), f"ctl={str(ctl).replace(',', ',,')}"]
        words += [f"{name}=on" for name in ("count", "cut") if getattr(self, name)]
        words += [f"quantum={self.quantum}"] if self.quantum else []
        words += [f"pc={pc:#x}" for pc in self.pcs]
        words += [] if self.stopped is None else [f"stopped={self.stopped:#x}"]
        words += [f"out={port:#x}:{byte:#x}" for port, byte in self.outs]
        words += ["user=on"] if self.user else []
        words += [f"begin={self.begin.hex()}"] if self.begin else []
        return ",".join(words)

    def pc_mark(self, index: int = 0) -> int:
        return index

    def out_mark(self, index: int = 0) -> int:
        return self._places() + index

    def stopped_mark(self) -> int:
        """That of the message to the supply that Stop has committed: the last one."""
        return self._places() + len(self.outs) - 1

    def user_mark(self) -> int:
        assert self.user, "the plugin is not configured for user programs"
        return self._places() + len(self.outs)

    def _places(self) -> int:
        return len(self.pcs) + (self.stopped is not None)


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment of one QEMU process."""

    cpu: int | None  # the vCPU that triggered it
    halted_ns: int | None  # time in which all vCPUs were halted; None without icount
    count: tuple[int, ...]  # instructions begun, by vCPU
    waited_ns: tuple[int, ...] = ()  # for memory, by vCPU; empty without caches
    cycle_ps: int = 1000  # time of an instruction

    def clock_ns(self, cpu: int) -> int:
        """The clock of one vCPU, which does not include halts."""
        waited_ns = self.waited_ns[cpu] if self.waited_ns else 0
        return self.count[cpu] * self.cycle_ps // 1000 + waited_ns

    @property
    def total(self) -> int:
        return sum(self.count)


def elapsed_ns(begin: Snapshot, end: Snapshot) -> int:
    """Guest time: the largest clock of any vCPU, plus halted time.

    Without caches that is the clock flat-1ns: instructions, 1 ns each.
    """
    if begin.halted_ns is None or end.halted_ns is None:
        raise InfraError(
            "guest time needs a machine with icount, and a QEMU that reports halted time"
        )
    largest_ns = max(end.clock_ns(cpu) - begin.clock_ns(cpu) for cpu in range(len(end.count)))
    return largest_ns + end.halted_ns - begin.halted_ns


class PluginControl:
    """The control file of one machine. Commands come from one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, CTL_BYTES)
            self._map = mmap.mmap(descriptor, CTL_BYTES)
        finally:
            os.close(descriptor)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def prepare(self) -> None:
        """Forget the previous process. Only while no QEMU runs."""
        self._map[:] = bytes(CTL_BYTES)

    def _view(self) -> Any:
        return fmt.parse(CTL, self._map[:])

    def wait_ready(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        """Wait until the plugin and all vCPUs are ready."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            view = self._view()
            if view.magic == fmt.CONST["REM_PLUGIN_MAGIC"]:
                if view.version != fmt.CONST["REM_PLUGIN_VERSION"]:
                    raise InfraError(f"{self.path}: plugin of version {view.version}: rebuild it")
                return
            time.sleep(MARK_POLL_S)
        raise HangError(f"{self.path}: the plugin is not ready within {limit_s:g} s")

    def _offset(self, field: str) -> int:
        return int(getattr(fmt.VIEWS, CTL).fields[field].offset)

    def _command(self, command: Any, first: int = 0, second: int = 0) -> None:
        with self._lock:
            struct.pack_into("<QQ", self._map, self._offset("argument"), first, second)
            struct.pack_into("<I", self._map, self._offset("command"), int(command))
            request = self._view().request + 1 & 0xFFFFFFFF
            struct.pack_into("<I", self._map, self._offset("request"), request)
            self._wake()
            end_s = time.monotonic() + ANSWER_LIMIT_S
            while self._view().done != request:
                if time.monotonic() > end_s:
                    raise HangError(f"{self.path}: no answer to {command.name}: is QEMU alive?")
                time.sleep(ANSWER_POLL_S)
            error = PluginError(self._view().error)
            if error != PluginError.REM_PLUGIN_OK:
                raise RemError(f"{self.path}: {command.name}({first}, {second}): {error.name}")

    def _wake(self) -> None:
        word = ctypes.c_uint32.from_buffer(self._map, self._offset("request"))
        # If it fails, the plugin polls 20 ms later.
        self._libc.syscall(SYS_FUTEX, ctypes.byref(word), FUTEX_WAKE, 1, None, None, 0)

    def _snapshot(self, view: Any) -> Snapshot | None:
        if view.taken != 1:
            return None
        cpus = self._view().cpu_count
        return Snapshot(
            cpu=None if view.cpu == NONE else int(view.cpu),
            halted_ns=None if view.halted_ns == NONE else int(view.halted_ns),
            count=tuple(int(count) for count in view.count[:cpus]),
            waited_ns=tuple(int(waited) for waited in view.waited_ns[:cpus]),
            cycle_ps=int(view.cycle_ps),
        )

    def read(self) -> Snapshot:
        """All counters now. Exact while the VM is stopped."""
        self._command(Command.REM_PLUGIN_READ)
        snapshot = self._snapshot(self._view().now)
        assert snapshot is not None, "the plugin answered without a snapshot"
        return snapshot

    def disarm(self) -> None:
        self._command(Command.REM_PLUGIN_DISARM)

    def arm_cut(self, cpu: int, insns: int) -> None:
        """SIGKILL when *cpu* has begun *insns* more instructions. The VM must be stopped."""
        self._command(Command.REM_PLUGIN_ARM_CUT, cpu, insns)

    def arm_cut_at(self, mark: int, insns: int) -> None:
        """SIGKILL *insns* instructions after *mark* is next reached. VM stopped."""
        self._command(Command.REM_PLUGIN_ARM_CUT_AT, mark, insns)

    def arm_hold_up(self, hold_up_ns: int) -> None:
        """SIGKILL after so much guest time. The VM must be stopped, and run by icount."""
        self._command(Command.REM_PLUGIN_ARM_HOLD_UP, hold_up_ns)

    def arm_store(self, number: int) -> None:
        """SIGKILL right after that store to NVRAM, counted from here. With caches; VM stopped."""
        self._command(Command.REM_PLUGIN_ARM_STORE, number)

    def honour(self, which: Any) -> None:
        """Set which flushes have an effect (enum rem_plugin_honour). With caches; VM stopped."""
        self._command(Command.REM_PLUGIN_HONOUR, int(which))

    def window(self, begins: bool) -> None:
        """Begin or end a window of a recording, which has every store. With caches; VM stopped."""
        self._command(Command.REM_PLUGIN_WINDOW, int(begins))

    def trace(self, records: int) -> None:
        """Trace up to *records* memory requests from here; 0 ends the trace. VM stopped."""
        self._command(Command.REM_PLUGIN_TRACE, records)

    def power_cut(self) -> None:
        """The power fails now: the process ends without an answer. The VM must be stopped."""
        with self._lock:
            struct.pack_into(
                "<I", self._map, self._offset("command"), int(Command.REM_PLUGIN_POWER_CUT)
            )
            request = self._view().request + 1 & 0xFFFFFFFF
            struct.pack_into("<I", self._map, self._offset("request"), request)
            self._wake()

    def caches(self) -> dict[str, int] | None:
        """struct rem_plugin_cache by field, or None. Survives the process."""
        return self._counters(self._view().cache, CACHE_FIELDS)

    def memory(self) -> dict[str, int] | None:
        """struct rem_plugin_memory by field, or None. Survives the process."""
        return self._counters(self._view().memory, MEMORY_FIELDS)

    @staticmethod
    def _counters(view: Any, fields: tuple[str, ...]) -> dict[str, int] | None:
        if view.taken != 1:
            return None
        names = [name for name in fields if name not in {"taken", "reserved"}]
        return {name: int(getattr(view, name)) for name in names}

    def cut_cause(self) -> Any:
        """What ended the process (enum rem_plugin_cut)."""
        return PluginCut(self._view().cut)

    def reset_marks(self) -> None:
        self._command(Command.REM_PLUGIN_RESET_MARKS)

    def first(self, mark: int) -> Snapshot | None:
        """The counters when *mark* was first reached, or None. Survives the process."""
        return self._snapshot(self._view().marks[mark].first)

    def wait_mark(self, mark: int, limit_s: float) -> Snapshot:
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            if (snapshot := self.first(mark)) is not None:
                return snapshot
            time.sleep(MARK_POLL_S)
        raise HangError(f"{self.path}: mark {mark} was not reached within {limit_s:g} s")

    def turns(self) -> list[tuple[int, int]]:
        """Where turns ended in the kernel since arm_hold_up(): (vCPU, address), the first 50.

        A sample of what each vCPU did; needs a quantum. Survives the process.
        """
        view = self._view()
        return [(int(t.cpu), int(t.address)) for t in view.turns[: view.turn_count]]

    def at_cut(self) -> Snapshot | None:
        """The counters when the plugin ended the process, or None. Survives the process."""
        return self._snapshot(self._view().at_cut)


def ctl_path(name: str) -> Path:
    """The control file of a machine."""
    return MachineFiles.of(name).directory / "plugin.ctl"

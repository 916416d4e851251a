# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine as one object: made, booted, cut, resumed, destroyed.

State is kept in one directory (files.py) and owned by one process at a time (MachineLock). The
media are nvram.img and disk.img there; everything else is lost with its QEMU.

    configured --boot--> running --cut--> stopped | cut --resume--> running --> ...

Invariant: a QEMU process exists only in state `running`; every other state is entered after its
waitpid().
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab import format as fmt
from lab import run
from lab.errors import HangError, InfraError, UsageError
from lab.machine import caches, disks, lost_interrupt
from lab.machine.battery import BatteryMemory
from lab.machine.config import MachineConfig
from lab.machine.console import Console
from lab.machine.cut_plan import ANNOUNCED, UNANNOUNCED, CutPlan
from lab.machine.esp import loader_efi, make_esp, sign
from lab.machine.files import MachineFiles, MachineLock
from lab.machine.forward import Forwarder
from lab.machine.guest import Guest, GuestResult
from lab.machine.network import (
    TapNetwork,
    make_network,
    network_from_state,
    network_to_state,
)
from lab.machine.nvdimm import NvdimmController
from lab.machine.plugin import PluginControl, PluginCut
from lab.machine.qemu import BootOptions, QemuProcess, esp_texts
from lab.machine.qemu_riscv import make_tree
from lab.machine.share_mounts import Shares
from lab.machine.supply import CutRecord, GuestClock, HostPacedClock, PowerSupply
from lab.machine.tpm import Tpm
from lab.machine.unified import SECTIONS, unified
from lab.power.model import PowerModel
from lab.progress import waiting
from lab.record.block import decode, read_block
from lab.record.boot_note import BootNote, read_boot_note
from lab.setup.products import MACHINE, need
from lab.verdict import BrokenError, StuckError, cold_verdict

# A cold boot takes 2 s on an idle host and ten times that under icount; this bounds a crowded one.
BOOT_LIMIT_S = 120.0
SETTLE_LIMIT_S = 300.0
NOTE_POLL_S = 0.002


class MachineState(StrEnum):
    CONFIGURED = "configured"  # made, never booted
    RUNNING = "running"
    STOPPED = "stopped"  # the Stop reported its commit, then the power failed
    CUT = "cut"  # the power failed without that
    OFF = "off"  # the guest switched itself off
    FAILED = "failed"  # QEMU ended by itself, with an error


@dataclass(frozen=True)
class StateRecord:
    """state.json: what processes that do not own a machine know of it."""

    state: MachineState
    boots: int  # QEMU processes so far; logs carry this number
    sequence: int  # of the power supply's status
    network: dict[str, object]
    qemu_pid: int | None
    last_cut: dict[str, Any] | None
    why: str | None  # of state failed

    @staticmethod
    def of(raw: dict[str, Any]) -> StateRecord:
        known = {key: raw[key] for key in StateRecord.__dataclass_fields__}
        known["state"] = MachineState(known["state"])
        return StateRecord(**known)


class _Supply(PowerSupply):
    """A supply that cuts the power when the machine reports a planned Stop."""

    def __init__(self, machine: Machine, sequence: int) -> None:
        super().__init__(sequence)
        self._machine = machine

    def on_stopped(self) -> None:
        self._machine.stopped_by_itself()


class Machine:
    """See the module. Methods may be called from any thread; they run one at a time."""

    def __init__(self, files: MachineFiles, config: MachineConfig, lock: MachineLock) -> None:
        """Use create() or open()."""
        self.files = files
        self.config = config
        self._lock_file = lock
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        raw = files.read_state()
        record = StateRecord.of(raw) if raw else None
        self.boots = record.boots if record else 0
        self.state = record.state if record else MachineState.CONFIGURED
        self.why = record.why if record else None
        self.last_cut: dict[str, Any] | None = record.last_cut if record else None
        if self.state is MachineState.RUNNING:
            # Its owner died and QEMU with it: an unannounced cut.
            self.state, self.why = MachineState.CUT, "the process that ran it died"
        if record:
            self.network = network_from_state(record.network, config)
        else:
            self.network = make_network(config, files)
        self.supply: PowerSupply = _Supply(self, record.sequence if record else 0)
        self.clock: GuestClock = HostPacedClock()
        self.plugin: PluginControl | None = None  # attach() sets it
        self.guest = Guest(files, self.network)
        self.console: Console | None = None
        self.disk_settled: disks.Settled | None = None  # at the last loss of power
        self.nvdimm: NvdimmController | None = None
        if config.nvram_kind == "nvdimm-n":
            parts = files.nvdimm_parts(config)
            self.nvdimm = NvdimmController(parts, config.nvram_bytes, PowerModel.ready())
        self.tpm = Tpm(files.tpm) if config.tpm is not None else None
        self.battery: BatteryMemory | None = None
        if config.nvram_kind == "battery":
            parts = files.nvdimm_parts(config)
            self.battery = BatteryMemory(parts, config.nvram_bytes, PowerModel.ready())
        self.shares = Shares(self)
        self._off_longer_s = 0
        self._options = BootOptions()  # of the last boot
        self.qemu: QemuProcess | None = None
        self._cutting = False
        self._forwarders: list[Forwarder] = []
        self._note_before = b""
        self._destroy_on_exit = False

    # Making and unmaking.

    @classmethod
    def create(cls, config: MachineConfig, destroy_on_exit: bool = False) -> Machine:
        """A new machine: its directory, media and network. An error leaves nothing behind."""
        need(MACHINE)
        make_room(config.name)
        files = MachineFiles.of(config.name)
        files.directory.mkdir(parents=True, exist_ok=True)
        lock = MachineLock(files)
        machine = None
        try:
            if destroy_on_exit:
                files.transient.touch()
            _make_media(files, config)
            machine = cls(files, config, lock)
            machine.shares.check()
            machine.network.setup()
            files.config.write_text(config.to_json(), encoding="utf-8")
            machine._write_state()
        except BaseException:
            if machine is not None:
                machine.network.teardown()
            _remove_files(files, config)
            lock.release()
            raise
        machine._destroy_on_exit = destroy_on_exit
        return machine

    @classmethod
    def open(cls, name: str) -> Machine:
        """A machine that exists and that no other process owns now."""
        need(MACHINE)
        files = MachineFiles.of(name)
        config = files.read_config()
        lock = MachineLock(files)
        try:
            machine = cls(files, config, lock)
            machine.network.setup()
        except BaseException:
            lock.release()
            raise
        return machine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._destroy_on_exit:
            self.destroy()
        else:
            self.close()

    def close(self) -> None:
        """Cut the power if it is on, and release everything but the files and the network."""
        with self._lock:
            if self.state is MachineState.RUNNING:
                self.cut(UNANNOUNCED)
            for forwarder in self._forwarders:
                forwarder.close()
            self._forwarders.clear()
            self.shares.stop()
            self.guest.close()
            if self.tpm is not None:
                self.tpm.power_off()  # if QEMU did not start
            self._write_state()
            self._lock_file.release()

    def destroy(self) -> None:
        """Close, and remove files and network."""
        self.close()
        self.network.teardown()
        _remove_files(self.files, self.config)

    # Power.

    def boot(self, cold: bool = False, rtc_offset_s: int = 0, **options: Any) -> None:
        """Power on. With something to resume in NVRAM the loader resumes it, unless *cold*."""
        if self.boots == 0:
            self._settle_firmware()
        self._off_longer_s = rtc_offset_s
        self._power_on(BootOptions(
            boot=self.boots + 1,
            cold=cold,
            rtc=BootOptions.rtc_of(self.config, rtc_offset_s),
            **options,
        ))  # fmt: skip

    def resume(self, rtc_offset_s: int = 0, cold: bool = False, **options: Any) -> None:
        """Power returns: a new QEMU on the same media. The loader decides whether to resume."""
        if self.boots == 0:
            raise UsageError(f"machine {self.config.name!r} has never run: boot it first")
        self.boot(cold=cold, rtc_offset_s=rtc_offset_s, **options)

    def _settle_firmware(self) -> None:
        """A power-on that comes before the first boot, until the loader decides.

        With a TPM, OVMF needs more memory for its tables than it has been made for. It keeps how
        much in a variable, and they are elsewhere from the second boot on: another machine.
        """
        if self.config.tpm is None or self.config.firmware_code is None:
            return
        self._power_on(BootOptions(boot=1, rtc=BootOptions.rtc_of(self.config, 0)))
        self.wait_boot_note(SETTLE_LIMIT_S)
        self.cut(UNANNOUNCED)
        self.last_cut = None

    def boot_again(self) -> None:
        """Cut the power and repeat the last boot."""
        with self._lock:
            self.guest.close()
            self.cut(UNANNOUNCED)
            self._power_on(replace(self._options, boot=self.boots + 1))

    def _power_on(self, options: BootOptions) -> None:
        with self._lock:
            if self.state is MachineState.RUNNING:
                raise UsageError(f"machine {self.config.name!r} is running already")
            self._options = options
            if self.battery is not None:
                self.battery.power_on(self._off_longer_s)
            self._note_before = self._note_bytes(before_power_on=True)
            if self.plugin is not None:
                self.plugin.prepare()
            if self.nvdimm is not None:
                self._power_on_nvdimm(self.nvdimm)
            if self.config.caches is not None:
                caches.fill_memory(self.files, self.config)
            if self._disk_is_volatile:
                self._settle_disk()  # if the process that ran it died
                disks.power_on(self.files.disk_parts)
            self.shares.start()
            if self.config.firmware_code is not None and not self.config.boots_from_root:
                self._make_esp(options)
            if self.config.isa == "riscv64":
                make_tree(self.config, self.files, options)
            self.qemu = QemuProcess(
                self.config,
                self.files,
                options,
                self.network.netdev(),
                self.network.exec_prefix(),
                self.tpm.power_on() if self.tpm is not None else None,
            )
            self.boots = options.boot
            self.console = Console(self.qemu.console_socket)
            self.supply.power_on(self.qemu.power_socket)
            self.qemu.qmp.on("RESET", self.supply.machine_was_reset)
            if self.nvdimm is not None:
                self.nvdimm.serve(self.qemu.nvdimm_socket)
            self._enter(MachineState.RUNNING)
            if not self._forwarders and isinstance(self.network, TapNetwork):
                self._forwarders = [Forwarder(self.network, f) for f in self.config.forwards]
            watcher = threading.Thread(
                target=self._watch, args=(self.qemu,), name="rem-watch", daemon=True
            )
            watcher.start()
            self.shares.mount_again()

    def _make_esp(self, options: BootOptions) -> None:
        config = self.config
        files = {"vmlinuz": options.kernel or config.kernel}
        if config.initrd is not None:
            files["initrd"] = config.initrd
        assert config.loader is not None
        texts = esp_texts(config, options)
        if config.signing_key is None or config.signing_certificate is None:
            make_esp(self.files.esp, loader_efi(config.loader), files, texts)
            return
        parts = {name: file.read_bytes() for name, file in files.items()}
        parts |= {name: text.encode() for name, text in texts.items() if name in SECTIONS}
        self.files.signed.write_bytes(unified(loader_efi(config.loader).read_bytes(), parts))
        sign(self.files.signed, config.signing_key, config.signing_certificate)
        rest = {name: text for name, text in texts.items() if name not in SECTIONS}
        make_esp(self.files.esp, self.files.signed, {}, rest)

    def cut(self, plan: CutPlan = ANNOUNCED, clock: GuestClock | None = None) -> CutRecord:
        """Cut the power as planned. QEMU ends by SIGKILL.

        *clock* ends the hold-up instead of the machine's own; cut_points.clock_for() makes the one
        that a plan with a place needs.
        """
        clock = clock or self.clock
        limit_ns = self.config.hold_up_ns if plan.hold_up_ns is None else plan.hold_up_ns
        with self._lock:
            qemu, wire = self.qemu, self.supply.wire
            if self.state is not MachineState.RUNNING or qemu is None or wire is None:
                raise UsageError(f"machine {self.config.name!r} is {self.state}, not running")
            if plan.announced and self.config.icount and isinstance(clock, HostPacedClock):
                raise UsageError(
                    "a hold-up under icount needs the plugin: make the machine with --cut-points"
                )
            self._cutting = True
            try:
                if plan.no_flush is not None:
                    caches.without_flush(self, plan.no_flush)
                if plan.at_store is not None:
                    caches.arm_store(self, plan.at_store)
                stopped_ns = self.supply.drop(clock, limit_ns) if plan.announced else None
                went_at_ns = time.monotonic_ns()
                status = caches.power_goes(self, qemu)
                record = CutRecord(
                    announced=plan.announced,
                    hold_up_ns=limit_ns if plan.announced else 0,
                    stopped=stopped_ns is not None,
                    stopped_after_ns=stopped_ns,
                    margin_ns=None if stopped_ns is None else limit_ns - stopped_ns,
                    echoed=plan.announced and wire.echoed.is_set(),
                    sequence=self.supply.sequence,
                    qemu_pid=qemu.pid,
                    qemu_status=status,
                    went_at_ns=went_at_ns,
                    gone=qemu.gone(),
                    caches=caches.at_cut(self),
                    supply=plan.supply,
                    place=plan.ends_at if self._ended_at_place() else None,
                )
                self._power_is_off()
            finally:
                self._cutting = False
            self.last_cut = asdict(record)
            if self.disk_settled is not None:
                self.last_cut["disk"] = self.disk_settled.as_dict()
            self._enter(MachineState.STOPPED if record.stopped else MachineState.CUT)
            return record

    def _ended_at_place(self) -> bool:
        """Not at the end of a hold-up, nor because the Stop ended before the place."""
        return self.plugin is not None and self.plugin.cut_cause() in {
            PluginCut.REM_PLUGIN_CUT_COUNT,
            PluginCut.REM_PLUGIN_CUT_STORE,
        }

    def _ended_by_plugin(self) -> bool:
        return self.plugin is not None and self.plugin.at_cut() is not None

    def stopped_by_itself(self) -> None:
        """In the wire's thread: a Stop committed. If no cut waits for it, it was planned."""
        qemu = self.qemu
        if not self._cutting and qemu is not None:
            qemu.process.kill()  # _watch() does the rest

    def _watch(self, qemu: QemuProcess) -> None:
        """A thread for each boot: detects a machine that goes off by itself."""
        status = qemu.wait()
        with self._lock:
            if self.qemu is not qemu or self.state is not MachineState.RUNNING:
                return  # it was a cut
            wire = self.supply.wire
            stopped = wire is not None and wire.stopped.is_set()
            qemu.kill()  # has been waited for: only closes QMP
            self._power_is_off()
            if stopped:
                self._enter(MachineState.STOPPED)
            elif status == 0:
                self._enter(MachineState.OFF)
            elif self._ended_by_plugin():
                self._enter(MachineState.CUT)
            else:
                self._enter(MachineState.FAILED, f"QEMU ended with {status}: {qemu.last_words()}")

    def _power_is_off(self) -> None:
        self.supply.power_off()
        if self.config.caches is not None:
            caches.keep_memory(self.files, self.config)
        if self.console is not None:
            self.console.close()
        if self.nvdimm is not None:
            self.nvdimm.power_off()
        if self.battery is not None:
            self.battery.power_off()
        if self.tpm is not None:
            self.tpm.power_off()
        if self._disk_is_volatile:
            self._settle_disk()

    def _power_on_nvdimm(self, nvdimm: NvdimmController) -> None:
        """Until its capacitor can feed a save there is no charge for a Stop (invariant 9)."""
        nvdimm.power_on()
        wait_s = nvdimm.ready_in_s()
        self.supply.set_charge(fmt.Charge.NONE if wait_s else fmt.Charge.FULL)
        if wait_s:
            charged = threading.Timer(wait_s, self.supply.set_charge, [fmt.Charge.FULL])
            charged.daemon = True
            charged.start()

    @property
    def _disk_is_volatile(self) -> bool:
        return self.config.root is not None and self.config.disk_cache == "volatile"

    def _settle_disk(self) -> None:
        """Lose what a volatile cache held; the seed depends on the boot, so that runs repeat."""
        config = self.config
        settled = disks.settle(self.files.disk_parts, config.disk_loss, config.seed + self.boots)
        if settled is not None:
            self.disk_settled = settled

    def _enter(self, state: MachineState, why: str | None = None) -> None:
        with self._changed:
            self.state, self.why = state, why
            self._write_state()
            self._changed.notify_all()

    def wait_off(self, limit_s: float) -> MachineState:
        """Wait until the machine is off, for any reason; HangError after *limit_s*."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.state is not MachineState.RUNNING, limit_s):
                raise HangError(f"machine {self.config.name!r} still runs after {limit_s:g} s")
            return self.state

    def _write_state(self) -> None:
        running = self.state is MachineState.RUNNING and self.qemu is not None
        record = StateRecord(
            state=self.state,
            boots=self.boots,
            sequence=self.supply.sequence,
            network=network_to_state(self.network),
            qemu_pid=self.qemu.pid if running and self.qemu is not None else None,
            last_cut=self.last_cut,
            why=self.why,
        )
        self.files.write_state(asdict(record))

    # What the machine reports.

    def _note_bytes(self, before_power_on: bool = False) -> bytes:
        path = self.files.seen(self.config)
        flash = self.files.nvdimm_parts(self.config).flash
        if before_power_on and self.nvdimm is not None and flash.exists():
            path = flash  # a restore brings that note back before the loader writes its own
        with path.open("rb") as nvram:
            nvram.seek(self.config.block_bytes + fmt.CONST["REM_NOTE_OFFSET"])
            return nvram.read(fmt.size_of("rem_boot_note"))

    def boot_note(self) -> BootNote | None:
        """The loader's last decision, from NVRAM; None if there is no valid one."""
        return read_boot_note(self._note_bytes())

    def wait_boot_note(self, limit_s: float = BOOT_LIMIT_S, held: bool = False) -> BootNote:
        """The decision of *this* boot's loader: the note differs from the one before power-on.

        *held*: or that it has not decided, and holds the image.
        """
        end_s = time.monotonic() + limit_s
        held_for = ""
        while time.monotonic() < end_s:
            raw = self._note_bytes()
            if raw != self._note_before and (note := read_boot_note(raw)) is not None:
                if held or not note.is_held:
                    return note
                held_for = f": it holds the image because of {note.held}, and asks on the console"
            if self.state is not MachineState.RUNNING:
                raise InfraError(f"the machine is {self.state} before its loader decided")
            time.sleep(NOTE_POLL_S)
        raise HangError(
            f"the loader of {self.config.name!r} decided nothing in {limit_s:g} s{held_for}"
        )

    def disk_is_ready(self) -> None:
        """After a boot with *disk_late*: the disk has its size from now on."""
        assert self.qemu is not None
        whole = {"driver": "raw", "node-name": "rem-disk", "file": "rem-file"}
        self.qemu.qmp.execute("blockdev-reopen", options=[whole])

    def wait_resumed(self, limit_s: float = BOOT_LIMIT_S) -> BootNote:
        """After resume(): wait until the guest answers.

        A cold boot, a crash after the loader entered the image, and a guest that does not answer
        are broken promises: BrokenError, or StuckError.
        """
        end_s = time.monotonic() + limit_s
        note = self.wait_boot_note(limit_s)
        if not note.resumed:
            what = f"machine {self.config.name!r} cold booted: {note.reason}"
            raise BrokenError(cold_verdict(note.reason), what)
        probe = ThreadPoolExecutor(1, "rem-probe")
        try:
            answer = probe.submit(self.guest.wait_ssh, max(end_s - time.monotonic(), 1.0))
            while not answer.done():
                self._check_runs("the kernel crashed at Go")
                time.sleep(NOTE_POLL_S)
            answer.result()
        except HangError as err:
            raise StuckError(
                f"{err.message}; CPUs are at {', '.join(self.program_counters())}"
            ) from err
        finally:
            probe.shutdown(wait=False)
        return note

    def wait_go_done(self, sequence: int, limit_s: float = BOOT_LIMIT_S) -> None:
        """After the loader entered that image: wait until the kernel records that programs run.

        Needs no program in the guest. Raises BrokenError if the kernel crashes, StuckError if it
        never records it.
        """
        end_s = time.monotonic() + limit_s
        name = self.config.name
        while not self._programs_run(sequence):
            self._check_runs(f"image {sequence} was entered and its kernel crashed")
            if time.monotonic() > end_s:
                raise StuckError(
                    f"machine {name!r}: image {sequence} was entered and programs do not run "
                    f"{limit_s:g} s later; CPUs are at {', '.join(self.program_counters())}"
                )
            time.sleep(NOTE_POLL_S)

    def _check_runs(self, what: str) -> None:
        """Raise BrokenError if the kernel has reset the machine since Go.

        A machine that is off did not do that by itself: its QEMU has failed, or someone cut it.
        """
        name = self.config.name
        if self.resets:
            lines = self.kernel_warnings() or ["the console is empty"]
            raise BrokenError("crashed", f"machine {name!r}: {what}: {lines[0]}; it boots again")
        if self.state is not MachineState.RUNNING:
            raise InfraError(f"machine {name!r} is {self.state} after Go: {self.why or 'cut'}")

    def _programs_run(self, sequence: int) -> bool:
        """By the last event of Go in the record; a later Stop has a higher number."""
        slots = decode(read_block(self.files.seen(self.config))).slots
        return any(
            slot.timeline_sequence == sequence and any(e.type == "GO_DONE" for e in slot.timeline)
            for slot in slots
        ) or any((slot.timeline_sequence or 0) > sequence for slot in slots)

    def wait_ready(self, limit_s: float = BOOT_LIMIT_S, since: int = 0, again: bool = True) -> None:
        """After a cold boot: wait until the guest's init reports that all is up.

        *since*: a position of the console, after a reset. Else, with *again*, a boot that hangs
        is repeated once (lost_interrupt.py).
        """
        lost_interrupt.wait_ready(self, limit_s, since, again)

    def wait_up(self, limit_s: float = BOOT_LIMIT_S, since: int = 0) -> None:
        """After a cold boot: wait until the guest answers commands."""
        with waiting(f"machine {self.config.name}: boot"):
            self.wait_ready(limit_s, since)
            self.guest.wait_ssh(limit_s)

    @property
    def resets(self) -> int:
        """How often this boot's machine was reset; a kernel that panics resets it (panic=-1).

        Firmware may add a reset of its own, so what counts is whether it is zero.
        """
        return self.qemu.qmp.events["RESET"] if self.qemu is not None else 0

    def program_counters(self) -> list[str]:
        """The instruction pointer of each CPU, for a machine that hangs; see System.map."""
        if self.qemu is None or self.state is not MachineState.RUNNING:
            return []
        text = self.qemu.qmp.monitor("info registers -a")
        return re.findall(r"^(?:[ER]IP=| pc +)([0-9a-f]+)", text, re.MULTILINE)

    def kernel_warnings(self) -> list[str]:
        """Of this boot only."""
        return self.console.warnings() if self.console is not None else []

    # The guest.

    def run_in_guest(
        self, command: str | Sequence[str], check: bool = True, limit_s: float = 60.0
    ) -> GuestResult:
        return self.guest.run(command, check=check, limit_s=limit_s)

    def connect(self, guest_port: int, limit_s: float = 10.0) -> socket.socket:
        """A TCP connection from the host into the guest; in tap mode it survives cuts."""
        return self.network.connect(guest_port, limit_s)


def make_room(name: str) -> None:
    """Make sure that no machine has this name; remove one that a killed command left.

    Raises UsageError if that machine is to be kept, or is in use.
    """
    files = MachineFiles.of(name)
    if not files.config.exists():
        return
    if not files.transient.exists() or MachineLock.owner_pid(files) is not None:
        raise UsageError(
            f"there is a machine {name!r} already: take another --name, "
            f"resume it with `rem resume --name {name}`, or remove it with `rem rm --name {name}`"
        )
    Machine.open(name).destroy()


def _make_media(files: MachineFiles, config: MachineConfig) -> None:
    """Fresh NVRAM (all zeros, sparse) and the machine's own copy of the root image."""
    uefi = config.firmware_variables
    efi = loader_efi(config.loader) if uefi is not None and config.loader is not None else None
    for product in (config.kernel, config.loader, config.root, config.initrd, uefi, efi):
        if product is not None and not product.is_file():
            raise InfraError(f"{product} is missing: run `./rem setup`")
    with files.nvram(config).open("wb") as nvram:
        nvram.truncate(config.nvram_bytes)
    # All of the guest's memory, its keys included, in a folder that others may read.
    files.nvram(config).chmod(0o600)
    if uefi is not None:
        shutil.copyfile(uefi, files.variables)
    if config.nvram_second_bytes is not None:
        with files.nvram_second(config).open("wb") as nvram:
            nvram.truncate(config.nvram_second_bytes)
        files.nvram_second(config).chmod(0o600)
    if config.root is not None:
        run.run(
            ["cp", "--sparse=always", "--reflink=auto", config.root, files.disk],
            what="copying the root image",
        )
        files.disk.chmod(0o600)
        if config.disk_bytes is not None:
            _resize_disk(files.disk, config.disk_bytes)
    if config.blank_bytes is not None:
        with files.blank.open("wb") as blank:
            blank.truncate(config.blank_bytes)
        files.blank.chmod(0o600)


def _resize_disk(disk: Path, size_bytes: int) -> None:
    """The file system fills the new size at once; the file stays sparse."""
    now_bytes = disk.stat().st_size
    if size_bytes < now_bytes:
        raise UsageError(f"--disk-size: this root needs {now_bytes >> 20}M or more")
    os.truncate(disk, size_bytes)
    # -f: the image is as mke2fs left it, so there is nothing to check.
    run.run(["resize2fs", "-f", disk], what="growing the root's file system")


def _remove_files(files: MachineFiles, config: MachineConfig) -> None:
    """Remove the lock last, with the directory: until then the machine is still ours."""
    files.nvram(config).unlink(missing_ok=True)
    files.nvram_second(config).unlink(missing_ok=True)
    caches.drop_memory(files, config)
    files.nvdimm_parts(config).flash.unlink(missing_ok=True)
    shutil.rmtree(files.directory)


def remove_leftovers(name: str) -> Path:
    """Remove a directory without a readable config, which no Machine can be opened from."""
    files = MachineFiles.of(name)
    if not files.directory.is_dir():
        raise UsageError(f"there is no machine {name!r}: `rem ps` lists the machines")
    lock = MachineLock(files)
    shutil.rmtree(files.directory)
    lock.release()
    return files.directory

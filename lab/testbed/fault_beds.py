# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three ways to come back after a power failure, for trials with faults (fault_bed.py).

whole   the whole system: Stop and Go
keep    chosen programs, on a fresh Debian (`rem-keep`)
vm      a guest, on a fresh host (`rem-vm`); the host is processes, so faults are the guest's
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.clients.process import ClientProcess
from lab.errors import HangError, InfraError, RemError
from lab.machine import Machine
from lab.machine.cut_plan import ANNOUNCED, UNANNOUNCED
from lab.machine.guest import GuestResult
from lab.machine.machine import MachineState
from lab.machine.qemu import NVRAM_PHYS
from lab.machine.qmp import Qmp
from lab.setup.fault_module import FaultModule
from lab.setup.inputs import Inputs
from lab.setup.keep import KEEP_ROOT, KeepModule, RemKeep
from lab.setup.products import Kernel, Loader, Part, Root, need, need_all
from lab.setup.stock import Stock
from lab.setup.vm import RemVm
from lab.testbed import fault_bed
from lab.testbed.fault_bed import (
    CLIENTS,
    COMMAND_LIMIT_S,
    DEPTH,
    HOLD_UP_US,
    PAGE_BYTES,
    Back,
    Bed,
)
from lab.testbed.keep_guest import KeepGuest, keep_guest
from lab.testbed.keep_image import free_frames
from lab.testbed.machines import make_config
from lab.testbed.vm_host import DEBIAN, VmHost
from lab.testbed.workload import PORTS
from lab.verdict import BrokenError, StuckError

GO_LIMIT_S = 60.0
DEVICE = "virtio-rng-pci"
CUT = replace(ANNOUNCED, hold_up_ns=HOLD_UP_US * 1000)
MONITOR_LIMIT_S = 10.0


class MachineBed(Bed):
    """A machine of lab/machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

    def sh(self, command: str, check: bool = True, limit_s: float = COMMAND_LIMIT_S) -> GuestResult:
        return self.machine.guest.run(command, check=check, limit_s=limit_s)

    def put(self, local: Path, remote: str) -> None:
        self.machine.guest.put(local, remote)

    def qmp(self) -> Qmp:
        assert self.machine.qemu is not None, "the machine is off"
        return self.machine.qemu.qmp

    def media(self) -> tuple[Path, int]:
        return self.machine.files.nvram(self.machine.config), NVRAM_PHYS

    def off(self) -> None:
        self.machine.guest.close()
        if self.machine.state is MachineState.RUNNING:
            self.machine.cut(UNANNOUNCED)

    def power(self) -> None:
        """It comes, to a machine that is as the faults have it."""
        devices = () if self.device_is_gone else (DEVICE,)
        self.machine.config = replace(self.machine.config, devices=devices)
        self.machine.boot(paused=self.disk_is_silent)
        if self.disk_is_silent:
            self.silence_disk()
            self.qmp().execute("cont")

    def comes_up(self) -> bool:
        """A system that boots."""
        try:
            self.machine.wait_ready(self.up_limit_s, again=False)
            self.machine.guest.wait_ssh(self.up_limit_s)
        except (HangError, InfraError):
            return False
        return True

    def cut(self) -> bool:
        self.machine.guest.close()
        return self.machine.cut(CUT).stopped


class WholeBed(MachineBed):
    """Everything comes back: programs, kernel, drivers."""

    mode = "whole"
    keeps_kernel = True

    def writers(self) -> ClientProcess:
        machine = self.machine
        host = machine.network.address(PORTS["redis"])[0]
        words = {"protocol": "redis", "host": host, "clients": CLIENTS, "depth": DEPTH}
        return ClientProcess.beside(machine.network, "writers", **words)

    def back(self) -> Back:
        self.power()
        note = self.machine.wait_boot_note(GO_LIMIT_S, held=True)
        if note.is_held:
            return Back(False, f"held: {note.held}", up=False)
        if not note.resumed:
            return Back(False, note.reason, self.comes_up())
        with suppress(BrokenError, StuckError):  # what came of it is asked from outside
            self.machine.wait_go_done(note.sequence, GO_LIMIT_S)
        return Back(True, note.reason)


class KeepBed(MachineBed):
    """redis comes back, on a system that has just booted."""

    mode = "keep"
    keeps_kernel = False

    def __init__(self, guest: KeepGuest) -> None:
        super().__init__(guest.machine)
        self.guest = guest

    def start_redis(self) -> None:
        self.sh("pkill -KILL redis-server; pkill rem-keep; sleep 0.2", check=False)
        self.guest.start_redis()
        self.guest.keep("check", "redis")  # a rehearsal: what a save reads is in memory now
        self.guest.serve()

    def writers(self) -> ClientProcess:
        return self.guest.writers("redis", CLIENTS, DEPTH)

    def back(self) -> Back:
        self.power()
        if not self.comes_up():
            return Back(False, "the fresh system does not come up", up=False)
        status = self.guest.begin()
        self.load_driver()
        return Back(status["verdict"] == "resume", str(status["verdict"]))

    def free_places(self) -> list[int]:
        begin = NVRAM_PHYS + self.guest.range_offset
        return [begin + frame * PAGE_BYTES for frame in free_frames(self.guest)]


class FaultyHost(VmHost):
    """A host whose guest has a second monitor, and a device that a file of the host is behind."""

    @property
    def monitor(self) -> Path:
        return self.files.directory / "faults.sock"

    @property
    def source(self) -> Path:
        return self.files.directory / "source"


class VmBed(Bed):
    """The guest comes back, with its kernel; its devices are new processes."""

    mode = "vm"
    keeps_kernel = True

    def __init__(self, host: FaultyHost) -> None:
        super().__init__()
        self.host = host
        self._qmp: Qmp | None = None

    def sh(self, command: str, check: bool = True, limit_s: float = COMMAND_LIMIT_S) -> GuestResult:
        return self.host.run_in_guest(command, check=check, limit_s=limit_s)

    def put(self, local: Path, remote: str) -> None:
        self.host.guest.put(local, remote)

    def qmp(self) -> Qmp:
        if self._qmp is None:
            self._qmp = connected(self.host.monitor)
        return self._qmp

    def media(self) -> tuple[Path, int]:
        return self.host.media / DEBIAN / "ram", 0

    def _leave(self) -> None:
        self.host.guest.close()
        if self._qmp is not None:
            self._qmp.close()
            self._qmp = None

    def off(self) -> None:
        self._leave()
        self.host.kill()

    def writers(self) -> ClientProcess:
        return self.host.writers("redis", CLIENTS, DEPTH)

    def cut(self) -> bool:
        self._leave()
        return self.host.cut().stopped

    def back(self) -> Back:
        self.host.source.unlink(missing_ok=True)
        if not self.device_is_gone:
            self.host.source.symlink_to("/dev/urandom")
        guest = self.host.power_on()[DEBIAN]
        if self.disk_is_silent and guest["runs"]:
            self.silence_disk()
        up = bool(guest["runs"])
        if up and not guest["resumed"]:
            up = self._comes_up()
        return Back(bool(guest["resumed"]), str(guest["reason"]), up)

    def _comes_up(self) -> bool:
        try:
            self.host.wait_up(self.up_limit_s)
        except HangError:
            return False
        return True


def connected(path: Path) -> Qmp:
    """A QEMU's second monitor."""
    end_s = time.monotonic() + MONITOR_LIMIT_S
    while True:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(str(path))
            break
        except OSError as error:
            end.close()
            if time.monotonic() > end_s:
                raise RemError(f"{path}: {error}") from error
            time.sleep(0.1)
    qmp = Qmp("faults")
    qmp.connect(end, MONITOR_LIMIT_S)
    return qmp


@contextmanager
def whole_bed() -> Iterator[Bed]:
    """On, with what faults need installed; destroyed at the end, as the others."""
    # A virtio disk of QEMU does not leave the bus before what is under way has ended.
    made = make_config("fresh-os-whole", stop_mode="fast")
    words = "remanence.hold=30"  # an image waits for the machine that it is of, as the others do
    config = replace(made, disk="nvme", devices=(DEVICE,), cmdline_extra=words)
    with Machine.create(config, destroy_on_exit=True) as machine:
        bed = WholeBed(machine)
        bed.boot()
        bed.install(need(FaultModule()))
        yield bed


@contextmanager
def keep_bed() -> Iterator[Bed]:
    with keep_guest("fresh-os-keep", hold_up_us=HOLD_UP_US) as guest:
        bed = KeepBed(guest)
        bed.install(need(FaultModule(stock=True)))
        yield bed


@contextmanager
def vm_bed() -> Iterator[Bed]:
    host = FaultyHost("fresh-os-vm", hold_up_us=HOLD_UP_US)
    host.more = lambda _media: (
        *("-chardev", f"socket,id=faults,path={host.monitor},server=on,wait=off"),
        *("-mon", "chardev=faults,mode=control"),
        *("-object", f"rng-random,id=source,filename={host.source}"),
        *("-device", f"{DEVICE},rng=source"),
    )
    with host:
        bed = VmBed(host)
        bed.boot()
        bed.install(need(FaultModule(stock=True)))
        yield bed


BEDS = {"whole": whole_bed, "keep": keep_bed, "vm": vm_bed}


def key_of(mode: str) -> str:
    """Of all that a bed consists of: another key is another system."""
    stock: list[Part[Any]] = [Stock(), FaultModule(stock=True)]
    parts: dict[str, list[Part[Any]]] = {
        "whole": [Kernel(), Loader(), Root(), FaultModule()],
        "keep": [*stock, RemKeep(), KeepModule(), KEEP_ROOT],
        "vm": [*stock, RemVm(), Root()],
    }
    inputs = Inputs("bed")
    built = need_all(parts[mode])
    for part in parts[mode]:
        inputs.add(type(part).__name__, repr(built[part]))
    for path in (Path(__file__), Path(fault_bed.__file__)):
        inputs.add_path(path, path.name)
    return inputs.key()

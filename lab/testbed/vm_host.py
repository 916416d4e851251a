# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host whose guests outlive its power (`rem-vm`), and a guest of Debian, as Debian ships it.

The host's power is a process namespace: a cut kills `rem-vm` and every QEMU at once. Its media are
a folder in the host's memory (guests' memory, records, device states) and the guest's disk. The
guest is seen as a machine is: by ssh, and by clients in a network that outlives it.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab import run
from lab.addresses import GUEST_ADDRESS, HOST_ADDRESS
from lab.clients.process import ClientProcess
from lab.errors import HangError, InfraError
from lab.machine.files import MachineFiles
from lab.machine.guest import COMMAND_LIMIT_S, Guest, GuestResult
from lab.machine.machine import make_room
from lab.machine.network import TapNetwork, namespace_name
from lab.machine.offspring import spawn_bound
from lab.machine.qemu import QEMU
from lab.machine.qemu_parts import MAC
from lab.machine.supply import HostPacedClock, PowerSupply
from lab.setup.products import MACHINE, Root, need_all
from lab.setup.stock import Stock, StockKernel
from lab.setup.vm import RemVm
from lab.testbed.machines import FAST_DIR
from lab.testbed.waiting import wait_until
from lab.testbed.workload import PORTS

RAM_BYTES = 512 << 20
HOLD_UP_US = 300_000  # TCG on two shared cores: a save takes some 20 ms
START_LIMIT_S = 120.0
SAVE_LIMIT_S = 10.0
POLL_S = 0.02
DEBIAN = "debian"
BARE = ("-nodefaults", "-display", "none", "-no-user-config")
CMDLINE = "root=/dev/vda rw console=ttyS0 init=/sbin/rem-init panic=-1"


Writers = ClientProcess


@dataclass(frozen=True)
class Fence:
    """Who may open the way to the guest's clients when it is back."""

    netdev: str
    open: tuple[str, ...]

    @property
    def toml(self) -> str:
        return f"{{ netdev = {json.dumps(self.netdev)}, open = {json.dumps(self.open)} }}"


@dataclass(frozen=True)
class VmGuest:
    """A guest as the configuration has it."""

    name: str
    args: tuple[str, ...]
    ram_bytes: int = RAM_BYTES
    priority: int = 0
    disks: tuple[Path, ...] = ()
    accel: str = "tcg"
    differs: str = "hold"
    fence: Fence | None = None
    requests: str = "complete"


@dataclass
class Cut:
    """One cut of the host's power. Times are the host's."""

    stopped: bool  # the host reported within the hold-up that all is saved
    stopped_after_ns: int | None


@dataclass
class VmHost:
    """Use as a context; the host is off at first, and nothing is left at the end."""

    name: str
    guests: list[VmGuest] = field(default_factory=list)
    debian: bool = True
    program: Path | None = None  # another rem-vm
    hold_up_us: int = HOLD_UP_US
    ram_bytes: int = RAM_BYTES  # of the guest of Debian
    root: Root = Root()  # noqa: RUF009 - a frozen record
    more: Callable[[Path], tuple[str, ...]] = lambda _media: ()  # its further arguments

    def __post_init__(self) -> None:
        make_room(self.name)
        self.files = MachineFiles.of(self.name)
        self.supply = PowerSupply()
        self._host: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        built = need_all([MACHINE, Stock(), self.root, RemVm()])
        self.program = self.program or built[RemVm()]
        # Of one that was killed.
        shutil.rmtree(self.files.directory, ignore_errors=True)
        self.files.directory.mkdir(parents=True)
        self.media = Path(tempfile.mkdtemp(prefix="rem-vm-", dir=FAST_DIR))
        self.network = self.make_network()
        self.network.setup()
        self.guest = Guest(self.files, self.network)
        if self.debian:
            run.run(["cp", "--sparse=always", built[self.root], self.files.disk])
            self.guests = [self._debian(built[Stock()]), *self.guests]
        self.config = self.media / "host.toml"
        self.write_config()
        return self

    # What is another one for a node of a cluster.

    @property
    def address(self) -> str:
        """Of the guest's first card."""
        return GUEST_ADDRESS

    def make_network(self) -> TapNetwork:
        return TapNetwork(namespace_name(self.files))

    def cards(self) -> list[str]:
        """QEMU's words for the guest of Debian's network."""
        netdev = self.network.netdev()
        return ["-netdev", netdev, "-device", f"virtio-net-pci,netdev=rem-net,mac={MAC},romfile="]

    def space(self) -> list[str]:
        """The beginning of a command line all of whose processes end with the first one."""
        pids = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        return [*self.network.exec_prefix(), *pids]

    def fence(self) -> Fence | None:
        """Of the guest of Debian."""
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.guest.close()
        self.network.teardown()
        shutil.rmtree(self.media, ignore_errors=True)
        shutil.rmtree(self.files.directory, ignore_errors=True)

    def add(self, guest: VmGuest) -> None:
        """One more guest, before the power comes."""
        self.guests.append(guest)
        self.write_config()

    def write_config(self) -> None:
        self.config.write_text(self._toml(), encoding="utf-8")

    def _debian(self, kernel: StockKernel) -> VmGuest:
        console = self.files.directory / "console.log"
        words = [*BARE, "-cpu", "max", "-smp", "2"]
        words += ["-kernel", str(kernel.bz_image), "-initrd", str(kernel.initrd)]
        ip = f"ip={self.address}::{HOST_ADDRESS}:255.255.255.0::eth0:off"
        words += ["-append", f"{CMDLINE} {ip}", "-serial", f"file:{console}"]
        words += ["-blockdev", f"driver=file,node-name=rem-file,filename={self.files.disk}"]
        words += ["-blockdev", "driver=raw,node-name=rem-disk,file=rem-file"]
        words += ["-device", "virtio-blk-pci,drive=rem-disk"]
        words += [*self.cards(), *self.more(self.media)]
        disks = (self.files.disk,)
        return VmGuest(DEBIAN, tuple(words), self.ram_bytes, 1, disks, fence=self.fence())

    def _toml(self) -> str:
        """JSON's strings and lists are TOML's."""
        lines = [
            f"folder = {json.dumps(str(self.media))}",
            f"hold_up_us = {self.hold_up_us}",
            f"qemu = {json.dumps(QEMU)}",
        ]
        for one in self.guests:
            lines += ["[[guest]]", f"name = {json.dumps(one.name)}"]
            lines += [f"ram_bytes = {one.ram_bytes}", f"priority = {one.priority}"]
            lines += [f"accel = {json.dumps(one.accel)}", f"args = {json.dumps(one.args)}"]
            lines += [f"differs = {json.dumps(one.differs)}"]
            lines += [f"requests = {json.dumps(one.requests)}"]
            lines += [f"disks = {json.dumps([str(path) for path in one.disks])}"]
            lines += [f"fence = {one.fence.toml}"] if one.fence else []
        return "\n".join(lines) + "\n"

    # Power.

    @property
    def is_on(self) -> bool:
        return self._host is not None

    def power_on(self) -> dict[str, Any]:
        """The host's power comes; its status when all guests are there."""
        self.begin_power_on()
        self.wait_served()
        return self.status()

    def begin_power_on(self, is_good: bool = True) -> None:
        """`rem-vm` begins, and the supply has connected; with *is_good* False PWR_OK is not up."""
        self.start()
        end = self._connect("power.sock")
        if is_good:
            self.supply.power_on(end)
        else:
            self.supply.connect(end)

    def start(self) -> None:
        """`rem-vm` begins, and no supply connects."""
        assert self._host is None, "the host is on"
        assert self.program is not None
        for name in ("power.sock", "control.sock"):
            (self.media / name).unlink(missing_ok=True)
        words = [*self.space(), str(self.program), "run", str(self.config)]
        with self._log.open("ab") as to:
            self._host = spawn_bound(words, stdout=to, stderr=to)

    @property
    def _log(self) -> Path:
        return self.files.directory / "host.log"

    def wait_served(self) -> None:
        """Until all guests are there, and questions are answered."""
        self._connect("control.sock").close()

    def _connect(self, name: str) -> socket.socket:
        """To a socket of `rem-vm`, when it is there."""
        assert self._host is not None, "the host is off"
        end_s = time.monotonic() + START_LIMIT_S
        while True:
            end = socket.socket(socket.AF_UNIX)
            with suppress(OSError):
                end.connect(str(self.media / name))
                return end
            end.close()
            if self._host.poll() is not None:
                raise InfraError(f"rem-vm ended: {self._log.read_text().strip().splitlines()[-1:]}")
            if time.monotonic() > end_s:
                raise HangError(f"no {name} within {START_LIMIT_S:g} s: see {self._log}")
            time.sleep(POLL_S)

    def status(self) -> dict[str, Any]:
        """Guests by name."""
        done = run.run([str(self.program), "status", str(self.config)])
        return {one["name"]: one for one in json.loads(done.stdout)["guests"]}

    def cut(self, announced: bool = True) -> Cut:
        """PWR_OK drops, the hold-up runs, and the power goes; or it goes at once."""
        took_ns = None
        if announced:
            took_ns = self.supply.drop(HostPacedClock(), self.hold_up_us * 1000)
        self.kill()
        return Cut(took_ns is not None, took_ns)

    def save(self) -> None:
        """PWR_OK drops; all guests are saved, and the power does not go."""
        assert self.supply.wire is not None
        self.supply.wire.stopped.clear()
        self.supply.set_power_ok(False)
        if not self.supply.wire.stopped.wait(SAVE_LIMIT_S):
            raise HangError(f"rem-vm has not saved all guests within {SAVE_LIMIT_S:g} s")

    def stop(self) -> None:
        """A planned end of the host: all guests are saved, and every process ends by itself."""
        assert self._host is not None, "the host is off"
        run.run([str(self.program), "stop", str(self.config)])
        self._host.wait(START_LIMIT_S)
        self.kill()

    def kill(self) -> None:
        """No process of the host is left."""
        if self._host is None:
            return
        self._host.send_signal(signal.SIGKILL)
        self._host.wait()
        self._host = None
        self.supply.power_off()
        wait_until(
            lambda: not any(map(_is_held, self.media.glob("*/lock"))),
            "each QEMU has ended after SIGKILL",
            START_LIMIT_S,
            POLL_S,
        )

    # The guest of Debian, as a machine.

    def run_in_guest(
        self, command: str, check: bool = True, limit_s: float = COMMAND_LIMIT_S
    ) -> GuestResult:
        return self.guest.run(command, check=check, limit_s=limit_s)

    def connect(self, guest_port: int, limit_s: float = 10.0) -> socket.socket:
        return self.network.connect(guest_port, limit_s)

    def writers(self, protocol: str, clients: int, depth: int) -> Writers:
        """Clients of a server in the guest that remember each answer and never connect again."""
        host = self.network.address(PORTS[protocol])[0]
        words = {"protocol": protocol, "host": host, "clients": clients, "depth": depth}
        return Writers.beside(self.network, "writers", **words)

    def wait_up(self, limit_s: float = START_LIMIT_S) -> None:
        self.guest.wait_ssh(limit_s)


def _is_held(lock: Path) -> bool:
    """Whether a QEMU holds its guest's lock: one that was killed has not ended at once."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

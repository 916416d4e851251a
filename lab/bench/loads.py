# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Loads of the guest during measurements. Every load survives cuts.

With each load, including the idle one, a program spins at the lowest priority (SCHED_IDLE): it
runs first after Go if nothing else has to, and while it runs, guest time is counted instructions.
Without it all vCPUs would be halted most of the time, and QEMU's clock would jump from timer to
timer: hours of guest time in minutes, in which connections time out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from lab.addresses import HOST_ADDRESS
from lab.clients.process import ClientProcess
from lab.errors import RemError
from lab.machine.machine import Machine

FSYNC_WRITERS = 2
FRAME_PORT = 7700
# Functions of the file that the compile load compiles: about 20 s of guest time per round.
COMPILE_FUNCTIONS = 300
# On a busy host a process may take long to begin, and a Stop that comes before that finds no group.
GROUP_IS_THERE = "while kill -0 $p && ! kill -0 -- -$p; do sleep 0.01; done 2>/dev/null"


class Load(ABC):
    """`with make_load("fsync", machine): ...`"""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.guest_answers = True  # in time; if not, it gets no command during the load
        self._groups: list[int] = []

    @abstractmethod
    def start(self) -> None: ...

    def _spawn(self, command: str) -> None:
        """Start a program in the guest, in its own process group, until stop()."""
        quoted = command.replace("'", "'\\''")
        begin = f"setsid sh -c '{quoted}' </dev/null >/tmp/load.log 2>&1 & p=$!"
        text = f"{begin}; {GROUP_IS_THERE}; echo $p"
        self._groups.append(int(self.machine.run_in_guest(text).stdout))

    def check(self) -> None:
        """Raise RemError if a part of the load has ended."""
        for group in self._groups if self.guest_answers else []:
            alive = self.machine.run_in_guest(f"kill -0 -- -{group}", check=False)
            if not alive.ok:
                log = self.machine.run_in_guest("tail -n 3 /tmp/load.log", check=False).stdout
                raise RemError(f"the load has ended in the guest: {log.strip() or 'empty log'}")

    def stop(self) -> None:
        for group in self._groups:
            self.machine.run_in_guest(f"kill -9 -- -{group}", check=False)
        self._groups.clear()

    def __enter__(self) -> Self:
        self._spawn('exec chrt -i 0 sh -c "while :; do :; done"')
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Otherwise the guest may not answer, and the machine is destroyed in any case.
        if error is None and self.guest_answers:
            self.stop()


class Idle(Load):
    """Only the spinning program of all loads."""

    def start(self) -> None:
        pass


class Fsync(Load):
    """Writers that wait for the disk after each record."""

    def start(self) -> None:
        for writer in range(FSYNC_WRITERS):
            self._spawn(f"exec /opt/rem/bin/rem-fsync --path /var/tmp/bench-{writer} --slots 512")


class Net(Load):
    """A connection on which both ends send without waiting for each other."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._peer: ClientProcess | None = None

    def start(self) -> None:
        self._peer = ClientProcess.beside(
            self.machine.network, "peer", host=HOST_ADDRESS, frame_port=FRAME_PORT
        )
        self._spawn(f"exec /opt/rem/bin/rem-tcp --peer {HOST_ADDRESS}:{FRAME_PORT}")

    def check(self) -> None:
        super().check()
        assert self._peer is not None
        if failures := self._peer.ask("status")["failures"]:
            raise RemError(f"the net load: {failures[0]}")

    def stop(self) -> None:
        # First: a peer reports an error when its guest ends.
        if self._peer is not None:
            self._peer.close()
        super().stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._peer is not None:
            self._peer.close()


class Compile(Load):
    """As many compilers as CPUs: processes come and go, pages are faulted in, files are written."""

    def start(self) -> None:
        self.machine.run_in_guest(
            f"cd /var/tmp && for i in $(seq {COMPILE_FUNCTIONS}); do "
            'echo "int f$i(int *a, int n) { int s = $i; for (int k = 0; k < n; k++) '
            's += a[k] * (k ^ $i) / (1 + (s & 7)); return s; }"; done > bench.c'
        )
        for cpu in range(self.machine.config.cpus):
            self._spawn(f"cd /var/tmp && while :; do gcc -O2 -c -o bench-{cpu}.o bench.c; done")


KINDS: dict[str, type[Load]] = {"idle": Idle, "fsync": Fsync, "net": Net, "compile": Compile}


def make_load(name: str, machine: Machine) -> Load:
    return KINDS[name](machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stops a machine at an exact instruction, to manipulate it from outside: a few packets of GDB's
remote protocol, sent to QEMU's own server.

    with Gdb(machine) as gdb:       # the VM is stopped
        gdb.run_to(address)         # runs until any vCPU is about to execute there
        ...
    # the VM continues
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from lab.errors import HangError, InfraError
from lab.machine import Machine

SOCKET_NAME = "gdb.sock"
LIMIT_S = 30.0
INTERRUPT = b"\x03"


class Gdb:
    """See the module."""

    def __init__(self, machine: Machine) -> None:
        path = machine.files.directory / SOCKET_NAME
        path.unlink(missing_ok=True)
        assert machine.qemu is not None
        machine.qemu.qmp.monitor("gdbserver none")  # that of an earlier use in the same process
        answer = machine.qemu.qmp.monitor(f"gdbserver unix:{path},server=on,wait=off")
        if not path.exists():
            raise InfraError(f"QEMU's gdb server did not start: {answer.strip()}")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(path))
        self._buffer = b""
        self._ask("qSupported:hwbreak+")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._ask("D")  # the VM continues
        finally:
            self._socket.close()

    def run_to(self, address: int) -> None:
        """Continue until a vCPU reaches the address; the VM is stopped there."""
        self._ok(f"Z1,{address:x},1")
        self._go_on("c")
        self._ok(f"z1,{address:x},1")

    def step(self) -> None:
        """Execute one instruction, without interrupts."""
        self._go_on("s")

    def run_for(self, duration_s: float) -> None:
        """Continue for so long, of the host's time; then the VM is stopped wherever it is."""
        self._send("c")
        time.sleep(duration_s)
        self._socket.sendall(INTERRUPT)
        reply = self._receive("an interrupt")
        if not reply.startswith("T02"):
            raise InfraError(f"the machine stopped for another reason: {reply}")

    def rsi(self) -> int:
        """Source of a string instruction, of the vCPU that the VM was stopped for."""
        reply = bytes.fromhex(self._ask("g"))
        return int.from_bytes(reply[4 * 8 : 5 * 8], "little")  # after RAX, RBX, RCX, RDX

    def read(self, address: int, count: int) -> bytes:
        """Bytes at an address, as the vCPU sees it that the VM was stopped for."""
        reply = self._ask(f"m{address:x},{count:x}")
        if len(reply) != 2 * count:
            raise InfraError(f"{count} bytes at {address:#x} cannot be read: {reply}")
        return bytes.fromhex(reply)

    def physical(self) -> None:
        """From now on addresses are physical ones; registers of devices have some, too."""
        self._ok("Qqemu.PhyMemMode:1")

    def write(self, address: int, data: bytes) -> None:
        self._ok(f"M{address:x},{len(data):x}:{data.hex()}")

    def _go_on(self, command: str) -> None:
        reply = self._ask(command)
        if not reply.startswith("T05"):
            raise InfraError(f"the machine stopped for another reason: {reply}")

    def _ok(self, command: str) -> None:
        reply = self._ask(command)
        if reply != "OK":
            raise InfraError(f"QEMU's gdb server answers {command} with {reply!r}")

    def _ask(self, command: str) -> str:
        """One command and its answer; both are acknowledged."""
        self._send(command)
        return self._receive(command)

    def _send(self, command: str) -> None:
        self._socket.sendall(f"${command}#{sum(command.encode()) % 256:02x}".encode())

    def _receive(self, command: str) -> str:
        try:
            while True:
                begin, end = self._buffer.find(b"$"), self._buffer.find(b"#")
                if 0 <= begin < end and len(self._buffer) >= end + 3:
                    break
                data = self._socket.recv(4096)
                if not data:
                    raise InfraError(f"QEMU has ended: no answer to {command}")
                self._buffer += data
        except TimeoutError as err:
            raise HangError(f"no answer to {command} within {LIMIT_S:g} s") from err
        reply = self._buffer[begin + 1 : end]
        self._buffer = self._buffer[end + 3 :]
        with suppress(ConnectionError):  # after D the VM may have stopped already
            self._socket.sendall(b"+")
        return reply.decode()

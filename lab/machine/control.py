# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests from commands to a machine's supervisor: JSON lines on a unix socket.

    -> {"op": "cut", "hold_up_ns": 17000000}
    <- {"ok": true, "result": {...}}   or   {"ok": false, "message": "...", "exit_code": 4}

After the answer to `console` the connection carries the console's raw bytes both ways.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.errors import Exit, InfraError, RemError
from lab.machine.files import MachineFiles, MachineLock

LINE_BYTES_MAX = 1 << 20


@contextmanager
def short_path(files: MachineFiles, name: str | None = None) -> Iterator[str]:
    """The path of the control socket, or of *name* beside it, short enough for sockaddr_un
    wherever the state directory is.
    """
    fd = os.open(files.directory, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name or files.control.name}"
    finally:
        os.close(fd)


def has_supervisor(files: MachineFiles) -> bool:
    """Whether a process owns the machine and serves requests."""
    return files.control.exists() and MachineLock.owner_pid(files) is not None


def read_line(sock: socket.socket) -> dict[str, Any]:
    """One JSON object, read byte by byte so that nothing behind it is consumed."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte or len(line) > LINE_BYTES_MAX:
            raise ConnectionError("the connection ended inside a line")
        line += byte
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def open_request(files: MachineFiles, op: str, **arguments: Any) -> tuple[socket.socket, Any]:
    """Send a request; return the open connection and the result. Raise the other side's error."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(files) as path:
            sock.connect(path)
        sock.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
        answer = read_line(sock)
    except (OSError, ValueError) as err:
        sock.close()
        raise InfraError(
            f"the supervisor of machine {files.name!r} does not answer ({err}): "
            f"see {files.supervisor_log}"
        ) from err
    if not answer.get("ok"):
        sock.close()
        raise RemError(str(answer["message"]), Exit(answer["exit_code"]))
    return sock, answer.get("result")


def request(files: MachineFiles, op: str, **arguments: Any) -> Any:
    sock, result = open_request(files, op, **arguments)
    sock.close()
    return result

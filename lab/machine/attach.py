# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Connects the user's terminal to a machine's console, and starts detached supervisors."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator

from lab import run
from lab.errors import Exit, InfraError, RemError
from lab.machine.control import has_supervisor, open_request
from lab.machine.cut_points import attach_cut_points
from lab.machine.files import MachineFiles
from lab.machine.machine import Machine, MachineState
from lab.machine.supervisor import ENDED, ConsoleFollower, Supervisor
from lab.messages import info
from lab.paths import repo_dir

ESCAPE = b"\x1d"  # Ctrl-], as in telnet and virsh
START_LIMIT_S = 60.0
POLL_S = 0.1


@contextlib.contextmanager
def raw_terminal() -> Iterator[bool]:
    """Make stdin deliver raw bytes; False if it is no terminal: then only signals end it."""
    if not sys.stdin.isatty():
        yield False
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield True
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _write_out(data: bytes) -> None:
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def _typed(limit_s: float) -> bytes:
    """What was typed within the limit."""
    ready, _, _ = select.select([sys.stdin], [], [], limit_s)
    return os.read(sys.stdin.fileno(), 4096) if ready else b""


def run_in_foreground(machine: Machine, cold: bool = False, rtc_offset_s: int = 0) -> int:
    """Own the machine, with the terminal as its console, until the user or the machine ends it."""
    try:
        attach_cut_points(machine)
        machine.boot(cold=cold, rtc_offset_s=rtc_offset_s)
        supervisor = Supervisor(machine)
    except BaseException:
        machine.close()
        raise
    try:
        with ConsoleFollower(machine, _write_out, replay=True), raw_terminal() as terminal:
            if not terminal:
                supervisor.wait()
            while terminal and not supervisor.ending() and machine.state not in ENDED:
                data = _typed(POLL_S)
                if ESCAPE in data:
                    break
                if data and machine.console is not None:
                    machine.console.send(data)
    finally:
        supervisor.close()
    info(f"\nrem: machine {machine.config.name!r} is {machine.state}" + _what_next(machine))
    return int(Exit.BROKEN if machine.state is MachineState.FAILED else Exit.PASS)


def _what_next(machine: Machine) -> str:
    name = machine.config.name
    if machine.state is MachineState.FAILED:
        return f": {machine.why}"
    return f"; resume it: rem resume --name {name}; remove it: rem rm --name {name}"


def start_detached(files: MachineFiles, cold: bool = False, rtc_offset_s: int = 0) -> None:
    """Start a supervisor that survives this process; return when the machine has power."""
    options = json.dumps({"cold": cold, "rtc_offset_s": rtc_offset_s})
    words = [sys.executable, "-m", "lab.machine.supervisor", files.name, options]
    with files.supervisor_log.open("ab") as log:
        child = run.spawn(
            words, cwd=repo_dir(), env={"PYTHONPATH": str(repo_dir())}, stdout=log, stderr=log
        )
    end_s = time.monotonic() + START_LIMIT_S
    while not has_supervisor(files):
        if child.poll() is not None or time.monotonic() > end_s:
            if child.returncode is None:
                child.send_signal(signal.SIGKILL)
            lines = files.supervisor_log.read_text(errors="replace").splitlines()
            reason = lines[-1].removeprefix("rem: ") if lines else "it printed nothing"
            code = child.returncode
            known = code in {2, 3, 4}
            raise (
                RemError(reason, Exit(code))
                if known
                else InfraError(
                    f"the supervisor did not start: {reason} (see {files.supervisor_log})"
                )
            )
        time.sleep(0.02)


def attach_console(files: MachineFiles) -> None:
    """Make the terminal the console of a machine that another process owns; Ctrl-] detaches."""
    sock, _ = open_request(files, "console")
    with sock, raw_terminal() as terminal:
        info("rem: Ctrl-] ends this console, not the machine\r")
        sock.sendall(b"\r")  # so that the shell prints its prompt
        _copy(sock, terminal)


def _copy(sock: socket.socket, terminal: bool) -> None:
    sources: list[socket.socket | int] = [sock]
    if terminal:
        sources.append(sys.stdin.fileno())
    while True:
        ready, _, _ = select.select(sources, [], [])
        if sock in ready:
            data = sock.recv(65536)
            if not data:
                return
            _write_out(data)
        if terminal and sys.stdin.fileno() in ready:
            typed = os.read(sys.stdin.fileno(), 4096)
            if not typed or ESCAPE in typed:
                return
            sock.sendall(typed)

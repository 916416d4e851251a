# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The process that owns one machine between two commands: a thin server around Machine.

`rem run --detach` starts `python -m lab.machine.supervisor NAME JSON`; `rem run` with a console
does the same in its own process. It ends on request (quit, SIGTERM, SIGINT) or when the machine
switched itself off or failed. It stays while the power is cut, because it holds the host's ends of
the forwarded connections.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from types import FrameType
from typing import Any

from lab.errors import Exit, HangError, RemError, UsageError
from lab.machine.control import read_line, short_path
from lab.machine.cut_plan import UNANNOUNCED, CutPlan
from lab.machine.cut_points import attach_cut_points, clock_for, resume_and_cut
from lab.machine.guest import SSH_FAILED
from lab.machine.machine import BOOT_LIMIT_S, Machine, MachineState
from lab.machine.places import GO_PHASES, Place
from lab.machine.status import SYSFS, status_of
from lab.machine.tracing import record
from lab.messages import info

# The last hold-up, when the supervisor ends: as on a host that shuts down.
END_HOLD_UP_NS = 2_000_000_000
STOP_LIMIT_S = 60.0
PROBE_LIMIT_S = 15.0  # of one wait for the guest; then check that the machine still runs
ANSWER_LIMIT_S = 240.0  # of a guest after Go, on a crowded host
RETRY_S = 0.2  # after a connection to a kernel that has ended or not yet begun
ENDED = (MachineState.OFF, MachineState.FAILED)


class Supervisor:
    """Serves requests in threads; wait() returns when it is time to end."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._end = threading.Event()
        self._answered_boot = 0  # the last boot whose guest has answered a command
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._on_signal)
        control = machine.files.control
        unready = control.with_suffix(".new")
        unready.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_path(machine.files, unready.name) as path:
            self._listener.bind(path)
        self._listener.listen()
        unready.rename(control)  # under its name it accepts connections from the first moment
        self._operations: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: status_of(machine),
            "cut": self._cut,
            "resume": self._resume,
            "decided": self._decided,
            "stop": self._stop,
            "guest_up": lambda _: self._wait_guest(),
            "trace": self._trace,
            "quit": self._quit,
        }
        threading.Thread(target=self._accept, name="rem-control", daemon=True).start()

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        self._end.set()

    def end(self) -> None:
        self._end.set()

    def ending(self) -> bool:
        return self._end.is_set()

    def wait(self) -> None:
        """Wait for a request to end, or until the machine is off or failed."""
        machine = self.machine
        while not self._end.wait(0.1):
            if machine.state in ENDED:
                return

    def close(self) -> None:
        """Give a running machine a hold-up to stop in, then release it."""
        self._listener.close()
        self.machine.files.control.unlink(missing_ok=True)
        if self.machine.state is MachineState.RUNNING and self._has_clock():
            hold_up_ns = min(END_HOLD_UP_NS, self.machine.config.hold_up_ns)
            try:
                self.machine.cut(CutPlan(hold_up_ns=hold_up_ns))
            except UsageError:
                info("rem: the machine went off by itself")
        self.machine.close()

    def _has_clock(self) -> bool:
        """Whether a hold-up can be measured: under icount only the plugin knows guest time."""
        config = self.machine.config
        return config.cut_points or not config.icount

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                message = read_line(sock)
                if message.get("op") == "console":
                    self._console(sock)
                    return
                answer = {"ok": True, "result": self._do(message)}
            except RemError as err:
                answer = {"ok": False, "message": err.message, "exit_code": int(err.exit_code)}
            except (ValueError, KeyError, TypeError, ConnectionError) as err:
                text = f"bad request: {type(err).__name__}: {err}"
                answer = {"ok": False, "message": text, "exit_code": int(Exit.USAGE)}
            try:
                sock.sendall(json.dumps(answer).encode() + b"\n")
            except OSError as err:
                info(f"rem: a client closed its connection before the answer: {err}")

    def _do(self, message: dict[str, Any]) -> Any:
        operation = self._operations.get(str(message.get("op")))
        if operation is None:
            raise UsageError(f"the supervisor has no operation {message.get('op')!r}")
        return operation(message)

    def _cut(self, message: dict[str, Any]) -> Any:
        plan = CutPlan.from_message(message)
        return asdict(self.machine.cut(plan, clock_for(self.machine, plan.place)))

    def _resume(self, message: dict[str, Any]) -> Any:
        machine = self.machine
        cold = bool(message.get("cold"))
        if (text := message.get("cut_at")) is not None:
            place = Place.parse(str(text), GO_PHASES, "--cut-at")
            resume_and_cut(machine, place, BOOT_LIMIT_S, int(message.get("rtc_offset_s", 0)))
            return {"boot_note": None, "qemu_pid": None, "state": str(machine.state)}
        machine.resume(rtc_offset_s=int(message.get("rtc_offset_s", 0)), cold=cold)
        return self._decided(message)

    def _decided(self, message: dict[str, Any]) -> Any:
        """Wait for the loader's decision of this boot, or until it holds the image; one that was
        entered must run.
        """
        del message
        machine = self.machine
        note = None if machine.config.loader is None else machine.wait_boot_note(held=True)
        if note is not None and note.resumed:
            machine.wait_go_done(note.sequence, ANSWER_LIMIT_S)
            if machine.config.root is not None and machine.config.network != "none":
                machine.wait_resumed(ANSWER_LIMIT_S)
            machine.shares.wait_mounted(ANSWER_LIMIT_S)
        return {"boot_note": asdict(note) if note else None, "qemu_pid": _pid(machine)}

    def _stop(self, message: dict[str, Any]) -> Any:
        """Request a planned Stop from the guest, which stops or switches itself off."""
        machine = self.machine
        if machine.state is not MachineState.RUNNING:
            raise UsageError(f"machine {machine.config.name!r} is {machine.state}, not running")
        power_off = bool(message.get("power_off"))
        command = "kill -USR2 1" if power_off else f"echo now > {SYSFS}/stop"
        refusal: list[str] = []

        def ask() -> None:
            # The answer may come only after a resume, or never; what counts is the machine's end.
            returncode = SSH_FAILED
            while returncode == SSH_FAILED and machine.state is MachineState.RUNNING:
                try:
                    result = machine.guest.run(command, check=False, limit_s=STOP_LIMIT_S)
                except RemError as err:
                    refusal.append(err.message)
                    return
                returncode = result.returncode
                time.sleep(RETRY_S)
            if returncode not in {0, SSH_FAILED}:
                refusal.append(result.stderr.strip() or f"exit {returncode}")

        threading.Thread(target=ask, name="rem-stop", daemon=True).start()
        end_s = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < end_s and not refusal:
            with suppress(HangError):
                return {"state": str(machine.wait_off(0.1))}
        why = refusal[0] if refusal else f"still running after {STOP_LIMIT_S:g} s"
        raise RemError(f"machine {machine.config.name!r} does not stop: {why}")

    def _quit(self, message: dict[str, Any]) -> None:
        if message.get("immediate") and self.machine.state is MachineState.RUNNING:
            self.machine.cut(UNANNOUNCED)
        self.end()

    def _trace(self, message: dict[str, Any]) -> str:
        records, limit_s = int(message["records"]), float(message["limit_s"])
        return str(record(self.machine, records, limit_s))

    def _wait_guest(self) -> None:
        """Once in each boot: wait until the guest answers commands."""
        machine = self.machine
        end_s = time.monotonic() + BOOT_LIMIT_S
        while self._answered_boot != machine.boots:
            if machine.state is not MachineState.RUNNING:
                raise UsageError(f"machine {machine.config.name!r} is {machine.state}, not running")
            boot = machine.boots
            try:
                machine.guest.wait_ssh(PROBE_LIMIT_S)
                self._answered_boot = boot
            except HangError:
                if time.monotonic() > end_s:
                    raise

    def _console(self, sock: socket.socket) -> None:
        """Copy both ways until the client disconnects; it stays attached through boots."""
        sock.sendall(b'{"ok": true}\n')
        with ConsoleFollower(self.machine, sock.sendall):
            while data := sock.recv(4096):
                console = self.machine.console
                if console is not None:
                    console.send(data)


def _pid(machine: Machine) -> int | None:
    return machine.qemu.pid if machine.qemu is not None else None


class ConsoleFollower:
    """Gives a sink the console of each boot of a machine, one after the other."""

    def __init__(self, machine: Machine, sink: Callable[[bytes], None], replay: bool = False):
        self._machine = machine
        self._sink = sink
        self._replay = replay
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rem-follow", daemon=True)

    def _pass_on(self, data: bytes) -> None:
        try:
            self._sink(data)
        except OSError:
            self._end.set()  # the reader has disconnected

    def _follow(self) -> None:
        console, replay = None, self._replay
        while not self._end.wait(0.02):
            newest = self._machine.console
            if newest is not None and newest is not console:
                if console is not None:
                    console.detach(self._pass_on)
                newest.attach(self._pass_on, replay=replay)
                console, replay = newest, True  # later boots are shown from their beginning
        if console is not None:
            console.detach(self._pass_on)

    def __enter__(self) -> ConsoleFollower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def main(argv: list[str]) -> int:
    """NAME and the first power-on's options as JSON: {"cold": bool, "rtc_offset_s": int}."""
    name, options = argv[0], json.loads(argv[1])
    try:
        machine = Machine.open(name)
        try:
            attach_cut_points(machine)
            machine.boot(cold=options["cold"], rtc_offset_s=options["rtc_offset_s"])
            supervisor = Supervisor(machine)
        except BaseException:
            machine.close()
            raise
    except RemError as err:
        info(f"rem: {err.message}")
        return int(err.exit_code)
    supervisor.wait()
    if machine.state in ENDED:
        info(
            f"rem: machine {name!r} is {machine.state}"
            + (f": {machine.why}" if machine.why else "")
        )
    supervisor.close()
    return int(Exit.BROKEN if machine.state is MachineState.FAILED else Exit.PASS)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))

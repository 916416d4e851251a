# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power supply: PWR_OK, charge, hold-up. The wire is defined in format/rem_pwr.h.

It survives every boot of its machine, as a real supply does. A drop: the status byte is sent, and
repeated until it is echoed; then REM_PWR_STOPPED comes or the hold-up ends; then the caller cuts
the power by killing QEMU. Invariant: the newest status is on the wire, or will be as soon as the
UART takes a byte; an older one is never sent after it.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import termios
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

from lab import format as fmt

STOPPED = fmt.CONST["REM_PWR_STOPPED"]
REPEAT_S = fmt.CONST["REM_PWR_REPEAT_MS"] / 1000
# While a changed status waits for the UART to take the byte before it.
BUSY_POLL_S = 0.0005


class GuestClock(Protocol):
    """Measures the guest's time: all that the supply knows of how time is modelled."""

    def begin(self, limit_ns: int) -> None:
        """PWR_OK is about to drop, for a hold-up of *limit_ns*."""
        ...

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        """Wait for *event*, at most *limit_ns* of guest time; return the time taken."""
        ...


class HostPacedClock:
    """The guest's virtual clock runs with the host's while the VM runs (no icount)."""

    def begin(self, limit_ns: int) -> None:
        """Nothing to do: what the host does before wait() counts, too."""

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        begin_ns = time.monotonic_ns()
        event.wait(limit_ns / 1e9)
        return time.monotonic_ns() - begin_ns


@dataclass(frozen=True)
class CutRecord:
    """What the supply saw of one cut. All times but one are guest time from the edge of PWR_OK."""

    announced: bool  # PWR_OK dropped before the power failed
    hold_up_ns: int
    stopped: bool  # REM_PWR_STOPPED came: the Stop reports that it has committed
    stopped_after_ns: int | None
    margin_ns: int | None  # of the hold-up, left when REM_PWR_STOPPED came
    echoed: bool  # the machine acknowledged the drop
    sequence: int  # of the status byte
    qemu_pid: int
    qemu_status: int  # -9: ended by SIGKILL
    went_at_ns: int  # the host's monotonic clock, when the power failed
    gone: bool  # waitpid() returned it and it is no longer in the process table
    caches: dict[str, int] | None = None  # their state at the end (struct rem_plugin_cache)
    supply: str | None = None  # the one whose window the hold-up was
    place: str | None = None  # where in the Stop the power failed, if the cut had a place


class PowerWire:
    """The supply's end of COM2 during one boot, served by a thread of its own."""

    def __init__(self, supply: PowerSupply, end: socket.socket) -> None:
        self._supply = supply
        self._socket = end
        self._socket.setblocking(False)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._status = supply.status()
        self._sent = False
        self._taken = False
        self._closing = False
        self._gone = False  # QEMU has ended, or nobody listens
        self.echoed = threading.Event()
        self.stopped = threading.Event()
        self.ended = threading.Event()  # STOPPED, or QEMU has ended: nothing more will come
        self.ignored_bytes = 0
        self._thread = threading.Thread(target=self._serve, name="rem-power", daemon=True)
        self._thread.start()

    def set_status(self, status: int) -> None:
        with self._lock:
            self._status = status
            self._sent = False
            self._taken = False
            self.echoed.clear()
            if status & fmt.CONST["REM_PWR_OK"] and not self._gone:
                self.stopped.clear()  # power is back: the next STOPPED is that of another Stop
                self.ended.clear()
            self._try_send()
        os.write(self._wake_write, b"w")

    def delivered(self) -> bool:
        """Whether QEMU has taken the newest status, echoed or not.

        While the VM is stopped, repeats fill the UART's queue; a status that was taken stays so.
        """
        with self._lock:
            self._taken |= self._sent and self._unread_bytes() == 0
            return self._taken

    def _unread_bytes(self) -> int:
        """What QEMU has not taken yet: at most one byte, as a UART is no queue."""
        count = array.array("i", [0])
        fcntl.ioctl(self._socket, termios.TIOCOUTQ, count)
        return count[0]

    def _try_send(self) -> None:
        try:
            if self._unread_bytes() > 0:
                return
            self._taken = self._sent  # the byte before this repeat has been taken
            self._socket.send(bytes([self._status]))
            self._sent = True
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass  # full: sent with the next repeat; or QEMU has ended, which _serve() notices

    def _wait_s(self) -> float | None:
        if not self._sent:
            return BUSY_POLL_S
        return None if self.echoed.is_set() else REPEAT_S

    def _serve(self) -> None:
        readers: list[Any] = [self._socket, self._wake_read]
        while not self._closing:
            with self._lock:
                wait_s = self._wait_s()
            ready, _, _ = select.select(readers, [], [], wait_s)
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            if self._socket in ready and not self._receive():
                break
            with self._lock:
                if not ready and not self.echoed.is_set():
                    self._try_send()
        with self._lock:
            self._gone = True
            self.ended.set()

    def _receive(self) -> bool:
        """False if QEMU has ended."""
        try:
            data = self._socket.recv(4096)
        except (ConnectionResetError, BlockingIOError):
            data = b""
        for byte in data:
            if byte == STOPPED:
                self.stopped.set()
                self.ended.set()
                with self._lock:
                    # Power that is back, or was never gone, ends a Stop.
                    if self._status & fmt.CONST["REM_PWR_OK"]:
                        self._forget_echo()
                self._supply.on_stopped()
            else:
                self._receive_echo(byte)
        return bool(data)

    def _forget_echo(self) -> None:
        self._sent = False
        self.echoed.clear()

    def repeat(self) -> None:
        """Send the status again: a machine that was reset does not know it."""
        with self._lock:
            if self._closing:
                return
            self._forget_echo()
            os.write(self._wake_write, b"r")

    def _receive_echo(self, byte: int) -> None:
        with self._lock:  # an echo can come before the sender has recorded the byte
            if self._sent and byte == fmt.pwr_echo(self._status):
                self.echoed.set()
            else:
                self.ignored_bytes += 1  # noise, or the echo of an older status
                if self.echoed.is_set():
                    # An echo is followed by noise: it was a letter of firmware, for which this port
                    # is one more console, and which has read the status.
                    self._forget_echo()

    def close(self) -> None:
        with self._lock:
            self._closing = True
        os.write(self._wake_write, b"c")
        self._thread.join()
        self._socket.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


class PowerSupply:
    """State that survives boots: PWR_OK, the charge class and the count of changes."""

    def __init__(self, sequence: int = 0) -> None:
        self.power_ok = False
        self.charge: int = fmt.Charge.FULL
        self.sequence = sequence % 8
        self.wire: PowerWire | None = None

    def status(self) -> int:
        return fmt.pwr_status(self.power_ok, self.charge, self.sequence)

    def _change(self, power_ok: bool, charge: int) -> None:
        if (power_ok, charge) == (self.power_ok, self.charge):
            return
        self.power_ok, self.charge = power_ok, charge
        self.sequence = (self.sequence + 1) % 8
        if fmt.pwr_echo(self.status()) == STOPPED:
            self.sequence = (self.sequence + 1) % 8  # its echo would be REM_PWR_STOPPED: never sent
        if self.wire is not None:
            self.wire.set_status(self.status())

    def power_on(self, end: socket.socket) -> None:
        """Power is good, and the machine's end of the wire is connected."""
        self._change(True, self.charge)
        self.connect(end)

    def connect(self, end: socket.socket) -> None:
        """The machine's end of the wire is connected, and hears the status as it is."""
        self.wire = PowerWire(self, end)

    def set_charge(self, charge: int) -> None:
        self._change(self.power_ok, charge)

    def set_power_ok(self, power_ok: bool) -> None:
        """Move PWR_OK alone; drop() is what a cut uses. For tests of a flapping supply."""
        self._change(power_ok, self.charge)

    def drop(self, clock: GuestClock, hold_up_ns: int) -> int | None:
        """Drop PWR_OK, wait for STOPPED or the end of the hold-up; return STOPPED's guest time."""
        wire = self.wire
        assert wire is not None, "the machine is off: there is no PWR_OK to drop"
        clock.begin(hold_up_ns)
        self._change(False, self.charge)
        taken_ns = clock.wait(wire.ended, hold_up_ns)
        return taken_ns if wire.stopped.is_set() and taken_ns <= hold_up_ns else None

    def power_off(self) -> None:
        """The machine has no power: PWR_OK is off until the next power_on()."""
        wire, self.wire = self.wire, None
        self._change(False, self.charge)
        if wire is not None:
            wire.close()

    def machine_was_reset(self) -> None:
        """What was echoed before is forgotten; the line itself has not changed."""
        wire = self.wire
        if wire is not None:
            wire.repeat()

    def on_stopped(self) -> None:
        """Called in the wire's thread when STOPPED comes; a machine overrides it."""

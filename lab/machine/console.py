# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine's serial console during one boot: kept, searched, followed, written to.

QEMU itself writes the log file, so the log is complete even if this process is killed.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable

from lab.errors import HangError, InfraError

READY_MARK = "REM-GUEST-READY"

# What a kernel prints when something is wrong. Every match fails a run that promises "no kernel
# warning in the log".
KERNEL_WARNING = re.compile(
    r"WARNING: |\bBUG: |kernel BUG at |\bOops\b|Call Trace:|Kernel panic|general protection fault"
    r"|unable to handle|rcu: .*(?:stall|self-detected)|soft lockup|hard LOCKUP"
    r"|blocked for more than|hung_task|APIC: Stale IRR|I/O error, dev|EXT4-fs error"
    r"|Unhandled fault|UBSAN: |KASAN: "
)

Sink = Callable[[bytes], None]


def kernel_warnings(text: str) -> list[str]:
    """The lines of a console log that a healthy kernel never prints."""
    return [line.strip() for line in text.splitlines() if KERNEL_WARNING.search(line)]


class Console:
    """One boot's console. All methods may be called from any thread."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._text = bytearray()
        self._changed = threading.Condition()
        self._sinks: list[Sink] = []
        self.ended = False  # QEMU has ended: nothing more will come
        self._thread = threading.Thread(target=self._serve, name="rem-console", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                data = self._socket.recv(65536)
            except OSError:
                data = b""
            with self._changed:
                self._text += data
                self.ended = not data
                sinks = list(self._sinks)
                self._changed.notify_all()
            for sink in sinks:
                sink(data)  # b"" means that the boot is over
            if not data:
                return

    def text(self, since: int = 0) -> str:
        with self._changed:
            return bytes(self._text[since:]).decode(errors="replace")

    def position(self) -> int:
        """The present end of the console; expect() from here sees only what comes later."""
        with self._changed:
            return len(self._text)

    def expect(self, pattern: str, limit_s: float, since: int = 0) -> re.Match[str]:
        """Wait for a line or part that matches; HangError after *limit_s* of host time."""
        regex = re.compile(pattern.encode(), re.MULTILINE)
        end_s = time.monotonic() + limit_s
        with self._changed:
            while True:
                found = regex.search(self._text, since)
                if found:
                    text = found.group().decode(errors="replace")
                    match = re.compile(pattern, re.MULTILINE).search(text)
                    assert match is not None
                    return match
                if self.ended:
                    raise InfraError(
                        f"the machine went off before {pattern!r} was printed: {self._tail()}"
                    )
                rest_s = end_s - time.monotonic()
                if rest_s <= 0:
                    raise HangError(self.missing(pattern, f"within {limit_s:g} s"))
                self._changed.wait(rest_s)

    def missing(self, pattern: str, why: str) -> str:
        """The message about a pattern that did not come."""
        return f"no {pattern!r} on the console {why}: {self._tail()}"

    def _tail(self) -> str:
        lines = bytes(self._text[-2000:]).decode(errors="replace").strip().splitlines()
        return f"its last line is {lines[-1].strip()!r}" if lines else "it printed nothing at all"

    def send(self, data: bytes) -> None:
        """Send input. A machine that went off takes none, which is no error of the sender."""
        try:
            self._socket.sendall(data)
        except OSError:
            with self._changed:
                self.ended = True

    def attach(self, sink: Sink, replay: bool = False) -> None:
        """Give *sink* all further output; with *replay* also all earlier output."""
        with self._changed:
            if replay and self._text:
                sink(bytes(self._text))
            self._sinks.append(sink)

    def detach(self, sink: Sink) -> None:
        with self._changed:
            if sink in self._sinks:
                self._sinks.remove(sink)

    def warnings(self) -> list[str]:
        return kernel_warnings(self.text())

    def close(self) -> None:
        """After QEMU has ended: read what is left, then close the socket."""
        self._thread.join(5.0)
        self._socket.close()

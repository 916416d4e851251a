# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Why a machine did not stop, for the message of a failed test.

A kernel with a suspended console, as during `stop=dpm`, logs its last lines to its own memory only.
Main memory is the NVRAM, so they are still there after QEMU has ended, and after the reset that
ends a panic. Nothing of this runs in a test that passes.
"""

from __future__ import annotations

import mmap
import re
import threading
from contextlib import suppress
from pathlib import Path

from lab.lost_lines.kernel import BANNER
from lab.machine import Machine
from lab.machine.console import KERNEL_WARNING
from lab.machine.supply import CutRecord, GuestClock
from lab.record.block import decode, read_block

LOG_BYTES = 1 << 20  # more than our kernels keep
LINE = re.compile(rb"[\x20-\x7e]{4,}")
LINES = 12  # of the log, from the first warning, else from its end
CONSOLE_CHARS = 300


class WatchedClock:
    """The machine's own clock, and where its CPUs were when the hold-up ended."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._clock: GuestClock = machine.clock
        self.counters: list[str] = []

    def begin(self, limit_ns: int) -> None:
        self._clock.begin(limit_ns)

    def wait(self, event: threading.Event, limit_ns: int) -> int:
        taken_ns = self._clock.wait(event, limit_ns)
        if not event.is_set():
            with suppress(ConnectionError, TimeoutError):
                self.counters = self._machine.program_counters()
        return taken_ns


def kernel_logs(nvram: Path) -> list[list[str]]:
    """The lines of each kernel log in a memory file, also of kernels before a reset."""
    logs = []
    with nvram.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        at = memory.find(BANNER)
        while at >= 0:
            lines = [line.decode() for line in LINE.findall(memory[at : at + LOG_BYTES])]
            if len(lines) > 1 and "%s" not in lines[0]:
                logs.append(lines)
            at = memory.find(BANNER, at + LOG_BYTES)
    return logs


def last_words(nvram: Path) -> list[str]:
    """The log from its first warning on; empty without a warning."""
    for lines in kernel_logs(nvram):
        for number, line in enumerate(lines):
            if KERNEL_WARNING.search(line) and "%" not in line:
                return lines[number : number + LINES]
    return []


def consoles(machine: Machine) -> str:
    """The console output of all boots of the machine."""
    files = sorted(machine.files.directory.glob("console-*.log"))
    return "".join(file.read_text(errors="replace") for file in files)


def why(machine: Machine, record: CutRecord, clock: WatchedClock) -> str:
    """Several lines: the wire, QEMU, the phases reached, the end of the kernel's log."""
    newest = decode(read_block(machine.files.seen(machine.config))).newest
    phases = [event.type for event in newest.timeline if event.part == "stop"] if newest else []
    words = last_words(machine.files.seen(machine.config))
    return "\n  ".join([
        f"no Stop within the hold-up of {record.hold_up_ns / 1e9:g} s",
        f"PWR_OK's drop was {'' if record.echoed else 'not '}echoed",
        f"QEMU ended with {record.qemu_status} after {machine.resets} resets of the machine",
        f"last timeline: {', '.join(phases) or 'none'}",
        f"CPUs at the end: {', '.join(clock.counters) or 'not known'}",
        f"the kernel's last words: {' | '.join(words) or 'no warning in its memory'}",
        f"console: {consoles(machine)[-CONSOLE_CHARS:] or 'silence'}",
    ])  # fmt: skip

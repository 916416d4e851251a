# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Processes in the guest that run beside commands, and their identity.

A process is identified by its number and start time together, as numbers are reused.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import Protocol

from lab.errors import HangError, RemError
from lab.machine.guest import GuestResult

LOG_DIR = "/run/rem"
PROGRAM_DIR = "/opt/rem/bin"
POLL_S = 0.2
# Position of the start time in /proc/PID/stat, counted behind the name in parentheses.
STAT_START_TIME = 19


class Runner(Protocol):
    """What this module needs of a machine."""

    def run_in_guest(
        self, command: str, check: bool = ..., limit_s: float = ...
    ) -> GuestResult: ...


@dataclass(frozen=True)
class ProcessId:
    """One process of one boot."""

    pid: int
    start_ticks: int


def identify(machine: Runner, pids: list[int]) -> dict[int, ProcessId]:
    """Those of *pids* that run now."""
    if not pids:
        return {}
    paths = " ".join(f"/proc/{pid}/stat" for pid in pids)
    text = machine.run_in_guest(f"cat {paths} 2>/dev/null; :").stdout
    found = {}
    for line in text.splitlines():
        number, _, rest = line.partition(" (")
        fields = rest.rpartition(")")[2].split()
        if number.isdigit() and len(fields) > STAT_START_TIME:
            found[int(number)] = ProcessId(int(number), int(fields[STAT_START_TIME]))
    return found


def pid_of(machine: Runner, program: str) -> int:
    """The one process of a program that became a daemon."""
    text = machine.run_in_guest(f"pidof {shlex.quote(program)}", check=False).stdout.split()
    if len(text) != 1:
        raise RemError(f"{len(text)} processes of {program} run in the guest, not one")
    return int(text[0])


class GuestJob:
    """A program of guest/programs; its verdict is the last line of its log."""

    def __init__(self, machine: Runner, program: str, *options: str, nice: int = 0) -> None:
        self.machine = machine
        self.program = program
        self.log = f"{LOG_DIR}/{program}-{time.monotonic_ns()}.log"
        words = ["setsid", "nice", "-n", str(nice), f"{PROGRAM_DIR}/{program}", *options]
        command = f"mkdir -p {LOG_DIR}; {shlex.join(words)} >{self.log} 2>&1 </dev/null & echo $!"
        self.pid = int(machine.run_in_guest(command).stdout)

    def lines(self) -> list[str]:
        return self.machine.run_in_guest(f"cat {self.log}").stdout.splitlines()

    def failure(self) -> str | None:
        """The line about an error, if there is one."""
        return next((line for line in self.lines() if not line.startswith(("OK ", "AT "))), None)

    def ask(self, limit_s: float = 20.0) -> dict[str, int]:
        """Its progress: the numbers of its next AT line."""
        lines = f"grep '^AT ' {self.log}"
        looks = max(1, int(limit_s / POLL_S))
        # One command, because a busy guest takes seconds to begin each.
        script = f"""before=$({lines} | wc -l)
kill -USR1 {self.pid} || exit 1
for look in $(seq {looks}); do
    [ $({lines} | wc -l) -gt $before ] && {{ {lines} | tail -n 1; exit 0; }}
    sleep {POLL_S}
done
exit 1"""
        done = self.machine.run_in_guest(script, check=False, limit_s=2 * limit_s)
        if not done.ok:
            raise HangError(f"{self.program} in the guest does not answer: {self.lines()[-1:]}")
        return numbers_in(done.stdout)

    def finish(self, limit_s: float = 60.0) -> str:
        """Ask it to end; return its last line, which begins with OK or FAIL."""
        self.machine.run_in_guest(f"kill -TERM {self.pid}", check=False)
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            verdict = [line for line in self.lines() if not line.startswith("AT ")]
            if verdict:
                return verdict[-1]
            time.sleep(POLL_S)
        raise HangError(f"{self.program} in the guest has no verdict after {limit_s:g} s")


def numbers_in(line: str) -> dict[str, int]:
    """The key=value pairs of a line whose values are whole numbers."""
    pairs = (word.partition("=") for word in line.split() if "=" in word)
    return {key: int(value) for key, _, value in pairs if value.lstrip("-").isdigit()}

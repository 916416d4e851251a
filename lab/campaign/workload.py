# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Any command in the guest as a campaign's workload, and the check that judges what a cut left.

    workload   runs in the guest, in a directory of its own on its disk. Each line it prints is a
               promise to the world, as a reply to a client is: what the line stands for is durable
    check      runs in the same directory after a boot, with all lines on its standard input that
               the world had seen when the power went. Exit 0 = every promise is kept. REM_BOOT is
               `resume` or `cold`

Lines go over the machine's console, so that the recording knows what had been said at any cut.
After a resume the workload goes on first; then all of its session is killed, the page cache is
dropped, and the check reads what the disk really holds. So a workload must not leave its session.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from lab.errors import HangError, InfraError, RemError, UsageError
from lab.machine import Machine
from lab.machine.console import kernel_warnings
from lab.paths import repo_dir
from lab.verdict import Broken, BrokenError, verdict_of

EXAMPLES = repo_dir() / "lab" / "campaign" / "examples"
HOME = "/root/campaign"
LINE = re.compile(r"SAID ((?:(?!SAID ).)*) END\r?$", re.MULTILINE)
ENDED = "WORKLOAD-ENDED"
SPEAK = (
    f"exec 3>/dev/ttyS0; {{ ../workload %s 2>../stderr; echo {ENDED}; }} |"
    ' while IFS= read -r line; do printf "SAID %%s END\\n" "$line" >&3; done'
)
# What a kernel says when its host does not let it run.
SLOW_HOST = re.compile(r"rcu: |soft lockup|blocked for more than|hung_task")
FIRST_LIMIT_S = 240.0  # of a server that starts, on a busy host
GO_ON_LIMIT_S = 120.0
CHECK_LIMIT_S = 300.0
POLL_S = 0.1


@dataclass(frozen=True)
class Workload:
    """Two commands; the first word of each is a file of the host."""

    workload: tuple[str, ...]
    check: tuple[str, ...]

    @staticmethod
    def of(workload: str, check: str) -> Workload:
        """As given on the command line."""
        return Workload(_command("--workload", workload), _command("--check", check))

    def write(self, recording: Path) -> None:
        """Beside a recording, so that images of it can be booted at any time."""
        text = json.dumps({"workload": self.workload, "check": self.check})
        (recording / "workload.json").write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def read(recording: Path) -> Workload:
        try:
            raw = json.loads((recording / "workload.json").read_text(encoding="utf-8"))
            return Workload(tuple(raw["workload"]), tuple(raw["check"]))
        except (OSError, ValueError, KeyError) as error:
            raise InfraError(
                f"{recording}: its workload cannot be told ({error}): record it again"
            ) from error

    @property
    def name(self) -> str:
        """For names of files and machines: a few letters, digits and '-'."""
        words = [Path(self.workload[0]).stem, *self.workload[1:]]
        return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:14]


def example(name: str, *words: str) -> Workload:
    """One of EXAMPLES that checks itself."""
    program = str(EXAMPLES / name)
    return Workload((program, *words), (program, "check", *words))


def standard() -> Workload:
    """What a campaign runs if nothing is said."""
    return Workload(
        (str(EXAMPLES / "records.sh"),),
        (str(EXAMPLES / "records-check.sh"),),
    )


def _command(option: str, text: str) -> tuple[str, ...]:
    words = shlex.split(text)
    if not words:
        raise UsageError(f"{option}: name a program to be run in the guest")
    program = Path(words[0])
    if not program.is_file() or not program.stat().st_mode & 0o111:
        raise UsageError(f"{option} {words[0]}: no such program, or it may not be executed")
    return (str(program.absolute()), *words[1:])


def said(text: str) -> list[str]:
    """The lines that the world has seen, in order."""
    return [line for line in LINE.findall(text) if line != ENDED]


def begin(machine: Machine, load: Workload) -> None:
    """Put both programs onto the guest's disk and start the workload; it says something soon."""
    machine.run_in_guest(f"mkdir -p {HOME}/data")
    machine.guest.put(Path(load.workload[0]), f"{HOME}/workload")
    machine.guest.put(Path(load.check[0]), f"{HOME}/check")
    script = SPEAK % " ".join(shlex.quote(word) for word in load.workload[1:])
    # Nobody but an ordinary crash may take the programs themselves away.
    machine.run_in_guest(
        f"sync; cd {HOME}/data; setsid sh -c {shlex.quote(script)} </dev/null >/dev/null 2>&1 &"
        f" echo $! > {HOME}/session; sync {HOME}/session"
    )
    wait_said(machine, 1, FIRST_LIMIT_S)


def wait_said(machine: Machine, count: int, limit_s: float) -> None:
    """Until so many lines have come in this boot."""
    end_s = time.monotonic() + limit_s
    assert machine.console is not None
    while True:
        text = machine.console.text()
        if ENDED in text:
            why = _stderr(machine) or "nothing on its standard error"
            raise BrokenError("does-not-continue", f"the workload has ended: {why}")
        if len(said(text)) >= count:
            return
        if time.monotonic() > end_s:
            why = _stderr(machine) or "nothing on its standard error"
            raise HangError(f"the workload says nothing for {limit_s:g} s: {why}")
        time.sleep(POLL_S)


def _stderr(machine: Machine) -> str:
    try:
        text = machine.run_in_guest(f"tail -n 3 {HOME}/stderr", check=False, limit_s=20).stdout
    except RemError:
        return ""
    return " ".join(text.split())


def judge(
    machine: Machine,
    load: Workload,
    before: str,
    resumed: bool,
    limit_s: float = GO_ON_LIMIT_S,
) -> Broken | None:
    """What is wrong with the guest that came up. *before*: the console of earlier boots."""
    assert machine.console is not None
    if resumed:
        try:
            wait_said(machine, 2, limit_s)  # the first may have been half said at the cut
        except RemError as error:
            return Broken(verdict_of(error), f"it does not continue: {error.message}")
        machine.run_in_guest(f"pkill -KILL -s $(cat {HOME}/session) || :")
        machine.run_in_guest("sync; echo 3 > /proc/sys/vm/drop_caches", limit_s=CHECK_LIMIT_S)
        before += machine.console.text()
    lines = "".join(f"{line}\n" for line in said(before))
    promises = machine.files.directory / "promises"
    promises.write_text(lines, encoding="utf-8")
    machine.guest.put(promises, "/run/promises")
    words = " ".join(shlex.quote(word) for word in load.check[1:])
    done = machine.run_in_guest(
        f"cd {HOME}/data; REM_BOOT={'resume' if resumed else 'cold'} ../check {words}"
        " < /run/promises",
        check=False,
        limit_s=CHECK_LIMIT_S,
    )
    if not done.ok:
        told = " ".join((done.stdout + " " + done.stderr).split()) or f"exit {done.returncode}"
        text = f"of {len(said(before))} promises some are broken: {told[-300:]}"
        return Broken("promises-broken", text)
    warned = own_warnings(machine.console.text())
    return Broken("kernel-warns", f"the kernel warns: {warned[0]}") if warned else None


def own_warnings(text: str) -> list[str]:
    """Those that are not of a slow host. A trace belongs to what was said before it."""
    found, slow = [], False
    for line in kernel_warnings(text):
        if "Call Trace:" not in line:
            slow = bool(SLOW_HOST.search(line))
        if not slow:
            found.append(line)
    return found

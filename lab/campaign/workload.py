# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Any command in the guest as a campaign's workload, and the check of what a cut left.

    workload   runs in the guest, in a directory of its own on its disk. Each line it prints is a
               promise, as a reply to a client is: what the line stands for is durable
    check      runs in the same directory after a boot; its standard input has all lines that had
               been printed when the power failed. Exit 0 = every promise is kept. REM_BOOT is
               `resume` or `cold`

Lines go over the machine's console, so that the recording has what was printed before any cut.
After a resume the workload continues first; then all of its session is killed, the page cache is
dropped, and the check reads what the disk really has. So a workload must not leave its session.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lab.errors import HangError, InfraError, RemError, UsageError
from lab.machine import Machine
from lab.machine.console import kernel_warnings
from lab.paths import repo_dir
from lab.verdict import Broken, BrokenError, after_go, verdict_of

EXAMPLES = repo_dir() / "lab" / "campaign" / "examples"
HOME = "/root/campaign"
LINE = re.compile(r"PROMISED ((?:(?!PROMISED ).)*) END\r?$", re.MULTILINE)
ENDED = "WORKLOAD-ENDED"
SPEAK = (
    f"exec 3>/dev/ttyS0; {{ ../workload %s 2>../stderr; echo {ENDED}; }} |"
    ' while IFS= read -r line; do printf "PROMISED %%s END\\n" "$line" >&3; done'
)
FIRST_LIMIT_S = 240.0  # of a server that starts, on a busy host
GO_ON_LIMIT_S = 120.0
CHECK_LIMIT_S = 300.0
POLL_S = 0.1
BROKEN = "promises some are broken"


@dataclass(frozen=True)
class Workload:
    """Two commands; the first word of each is a file on the host. *tools*: programs on the host
    that they need in the guest.
    """

    workload: tuple[str, ...]
    check: tuple[str, ...]
    tools: tuple[str, ...] = ()

    @staticmethod
    def of(workload: str, check: str) -> Workload:
        """From the words of the command line."""
        return Workload(_command("--workload", workload), _command("--check", check))

    def write(self, recording: Path) -> None:
        """Beside a recording, so that images of it can be booted at any time."""
        text = json.dumps(asdict(self))
        (recording / "workload.json").write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def read(recording: Path) -> Workload:
        try:
            raw = json.loads((recording / "workload.json").read_text(encoding="utf-8"))
            return Workload(*(tuple(raw[field.name]) for field in fields(Workload)))
        except (OSError, ValueError, KeyError) as error:
            raise InfraError(
                f"{recording}: its workload is unknown ({error}): record it again"
            ) from error

    @property
    def name(self) -> str:
        """For names of files and machines: a few letters, digits and '-'."""
        words = [Path(self.workload[0]).stem, *self.workload[1:]]
        return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:14]


def example(name: str, *words: str) -> Workload:
    """One of EXAMPLES, which is also its own check."""
    program = str(EXAMPLES / name)
    return Workload((program, *words), (program, "check", *words))


def standard() -> Workload:
    """The default workload."""
    return Workload(
        (str(EXAMPLES / "records.sh"),),
        (str(EXAMPLES / "records-check.sh"),),
    )


def _command(option: str, text: str) -> tuple[str, ...]:
    words = shlex.split(text)
    if not words:
        raise UsageError(f"{option}: name a program to run in the guest")
    program = Path(words[0])
    if not program.is_file() or not program.stat().st_mode & 0o111:
        raise UsageError(f"{option} {words[0]}: no such program, or it is not executable")
    return (str(program.absolute()), *words[1:])


def printed(text: str) -> list[str]:
    """The workload's lines in a console's output, in order."""
    return [line for line in LINE.findall(text) if line != ENDED]


def begin(machine: Machine, load: Workload) -> None:
    """Copy both programs to the guest's disk, start the workload, wait for its first line."""
    machine.run_in_guest(f"mkdir -p {HOME}/data")
    machine.guest.put(Path(load.workload[0]), f"{HOME}/workload")
    machine.guest.put(Path(load.check[0]), f"{HOME}/check")
    for tool in load.tools:
        machine.guest.put(Path(tool), f"/usr/local/bin/{Path(tool).name}")
    script = SPEAK % " ".join(shlex.quote(word) for word in load.workload[1:])
    # The sync keeps the programs themselves through a crash.
    machine.run_in_guest(
        f"sync; cd {HOME}/data; setsid sh -c {shlex.quote(script)} </dev/null >/dev/null 2>&1 &"
        f" echo $! > {HOME}/session; sync {HOME}/session"
    )
    wait_printed(machine, 1, FIRST_LIMIT_S)


def wait_printed(machine: Machine, count: int, limit_s: float) -> None:
    """Wait until so many lines have come in this boot."""
    end_s = time.monotonic() + limit_s
    assert machine.console is not None
    while True:
        text = machine.console.text()
        if ENDED in text:
            why = _stderr(machine) or "no output"
            raise BrokenError("does-not-continue", f"the workload has ended: {why}")
        if len(printed(text)) >= count:
            return
        if time.monotonic() > end_s:
            why = _stderr(machine) or "nothing on its standard error"
            raise HangError(f"the workload printed nothing for {limit_s:g} s: {why}")
        time.sleep(POLL_S)


def _stderr(machine: Machine) -> str:
    try:
        text = machine.run_in_guest(f"tail -n 3 {HOME}/stderr", check=False, limit_s=20).stdout
    except RemError:
        return ""
    return " ".join(text.split())


def broken_promises(count: str, why: str) -> str:
    """The message about promises that a boot has not kept; it has BROKEN."""
    return f"of {count} {BROKEN}: {why}"


def check(
    machine: Machine,
    load: Workload,
    before: str,
    resumed: bool,
    limit_s: float = GO_ON_LIMIT_S,
) -> Broken | None:
    """What is wrong with the guest that came up, if anything. *before*: earlier output."""
    assert machine.console is not None
    if resumed:
        try:
            with after_go():
                wait_printed(machine, 2, limit_s)  # the first may have been cut in the middle
        except RemError as error:
            return Broken(verdict_of(error), f"it does not continue: {error.message}")
        machine.run_in_guest(f"pkill -KILL -s $(cat {HOME}/session) || :")
        machine.run_in_guest("sync; echo 3 > /proc/sys/vm/drop_caches", limit_s=CHECK_LIMIT_S)
        before += machine.console.text()
    lines = "".join(f"{line}\n" for line in printed(before))
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
        text = " ".join((done.stdout + " " + done.stderr).split()) or f"exit {done.returncode}"
        why = broken_promises(str(len(printed(before))), text[-300:])
        return Broken("promises-broken", why)
    warned = kernel_warnings(machine.console.text())
    if not warned:
        return None
    return Broken("kernel-warns", f"the kernel logged a warning: {warned[0]}")

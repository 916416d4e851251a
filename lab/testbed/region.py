# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A region of interest in a guest: a program, with readings of counters right before and after it.

The program waits for the reader at both places without sleeping (guest/works/line.h); `region` of
guest/works does so for any other program. What the counters have besides the program is a line to
and from the guest; the start of a command by ssh would be much more.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.machine.machine import Machine
from lab.paths import repo_dir
from lab.run import end, spawn
from lab.setup.root_extras import WORKS_FOLDER

OUTPUT = "/dev/shm/region"
MAKE_LIMIT_S = 600.0
_REGION = re.compile(r"^REGION ns=(\d+) peak_kib=(\d+)$")
# All CPUs write their caches back when a memory type changes (WBINVD): of memory that has no RAM,
# and back. What disks and firmware changed is then on media, too, and not written in a region.
WRITE_BACK = (
    "echo 'base=0xa0000000 size=0x1000 type=uncachable' >/proc/mtrr && echo disable=1 >/proc/mtrr"
)


@dataclass(frozen=True)
class Region:
    ns: int  # by the guest's clock
    peak_kib: int
    counted: dict[str, int]  # what the counters have more than before
    said: str
    code: int


@dataclass(frozen=True)
class Talk:
    """A program in a guest that answers each line with one."""

    child: subprocess.Popen[str]

    def say(self, line: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()

    def hear(self) -> str:
        """The next line, or nothing at the end of what it says."""
        assert self.child.stdout is not None
        return self.child.stdout.readline().removesuffix("\n")

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def rest(self) -> tuple[str, int]:
        """What it says without being asked more, until it ends, and its exit code."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        return self.child.stdout.read(), self.child.wait()

    def counted(self, line: str, count: Callable[[], dict[str, int]]) -> tuple[str, dict[str, int]]:
        """The answer, and what the counters have more than before."""
        before = count()
        answer = self.ask(line)
        after = count()
        return answer, {key: after[key] - before[key] for key in after}


def install_region(machine: Machine) -> str:
    """Make the program in a guest whose root has no guest/works, and return its path."""
    for name in ("works/region.c", "works/line.h", "programs/check.c", "programs/check.h"):
        machine.guest.put(repo_dir() / "guest" / name, f"/root/{Path(name).name}")
    words = "cd /root && gcc -O2 -D_GNU_SOURCE -o region region.c check.c"
    machine.run_in_guest(words, limit_s=MAKE_LIMIT_S)
    return "/root/region"


@contextmanager
def talking(machine: Machine, argv: Sequence[str], limit_s: float) -> Iterator[Talk]:
    """With a program of the guest, which is ended at the end, and after the limit."""
    machine.run_in_guest("true")  # the connection that all commands share
    child = spawn(
        machine.guest.command_line(shlex.join(["exec", *argv])),
        cwd=machine.files.directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    watch = threading.Timer(limit_s, end, [child])
    watch.start()
    try:
        yield Talk(child)
    finally:
        watch.cancel()
        end(child)


def run_region(
    machine: Machine,
    words: str,
    count: Callable[[], dict[str, int]],
    limit_s: float,
    program: str | None = None,
) -> Region:
    """Run a shell command as a region. InfraError if the guest does not answer within the limit.

    *program*: that of install_region(), where the root does not have it.
    """
    argv = [program or f"{WORKS_FOLDER}/region", OUTPUT, "sh", "-c", words]
    with talking(machine, argv, limit_s) as talk:
        if (line := talk.hear()) != "READY":
            raise InfraError(f"in the guest: {words}: no region: {line!r}")
        line, counted = talk.counted("go", count)
        found = _REGION.match(line)
        if found is None:
            raise InfraError(f"in the guest: {words}: no end of the region: {line!r}")
        talk.say("counted")
        return Region(int(found[1]), int(found[2]), counted, *talk.rest())

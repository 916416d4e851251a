# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module breaks none of the kernel's own rules: KASAN, UBSAN and lockdep are silent.

Goal and method: all of test_off2f_guest.py on the kernel of kernel/config/debug.config, with the
module built for it, and two things that lockdep sees the locks of. A file that is read past the
page cache has the reader's memory locked inside the file's lock; files of one kind of file system
have one class of locks. A debugger that reads a text has the program's memory locked while pages of
it are faulted in; so such a fault must not take the file's lock. (A program's own faults only try
to lock its memory: lockdep does not count that.) The negative proof is in test_off2f_bugs.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import forget, watched_guest_with_store
from lab.testbed.pm_guest import sh
from lab.verdict import DETECTORS, BrokenError
from tests.off2f.test_off2f_guest import *  # noqa: F403
from tests.off2f.test_off2f_guest import REGION, TRY, convert_programs

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200), pytest.mark.usefixtures("quiet")]

REPORTS = re.compile(r"WARNING: |BUG: |possible circular locking dependency|UBSAN: ")
READ_FILE = """
import mmap, os
with open('/root/locks.data', 'wb') as file:
    file.write(bytes(1 << 16))
    os.fsync(file.fileno())
file = os.open('/root/locks.data', os.O_RDONLY | os.O_DIRECT)
assert os.preadv(file, [mmap.mmap(-1, 1 << 16)], 0) == 1 << 16
"""
# Of a program that has just been started, as a debugger does.
READ_TEXT = """
import ctypes, os, signal
pid = os.fork()
if not pid:
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)
    os.execv('{path}', ['{path}'])
os.waitpid(pid, 0)
with open(f'/proc/{pid}/maps') as maps, open(f'/proc/{pid}/mem', 'rb', 0) as memory:
    texts = [line.split()[0].split('-') for line in maps if ' r-xp ' in line and '[' not in line]
    assert texts
    for first, end in texts:
        for at in range(int(first, 16), int(end, 16), 4096):
            memory.seek(at)
            assert len(memory.read(4096)) == 4096
os.kill(pid, signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with watched_guest_with_store(f"t-offd-{os.getpid()}", more=REGION) as made:
        convert_programs(made)
        yield made


@pytest.fixture(scope="module")
def variant() -> str | None:
    return "debug"


def check_locks(machine: Machine) -> None:
    """Read a text of a program of two files, before and behind a file of that kind of system."""
    read_text = READ_TEXT.replace("{path}", TRY)
    for script in (read_text, READ_FILE, read_text):
        forget(machine)
        sh(machine, f"cat >/root/locks.py <<'end'\n{script}end\npython3 /root/locks.py")
    sh(machine, TRY)
    reports = [line for line in sh(machine, "dmesg").stdout.splitlines() if REPORTS.search(line)]
    if out_of_order := [line for line in reports if re.search(DETECTORS["lockdep"], line)]:
        raise BrokenError("lockdep", out_of_order[0])
    assert reports == []
    stats = sh(machine, "cat /proc/lockdep_stats").stdout
    assert re.search(r"debug_locks:\s+1", stats), "lockdep has switched itself off"


def test_no_lock_is_out_of_order(machine: Machine) -> None:
    check_locks(machine)

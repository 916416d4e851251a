# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module breaks none of the kernel's own rules: KASAN, UBSAN and lockdep are silent.

Goal and method: all of test_off2f_guest.py on the kernel of kernel/config/debug.config, with the
module built for it, and a write to the texts' file system whose buffer is not there yet: in it the
writer's memory is locked inside the file's lock. So a page fault of a text must not take that. The
negative proof is in test_off2f_bugs.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import NVM, forget, watched_guest_with_store
from lab.testbed.pm_guest import sh
from lab.verdict import DETECTORS, BrokenError
from tests.off2f.test_off2f_guest import *  # noqa: F403
from tests.off2f.test_off2f_guest import REGION, TRY, convert_programs

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200), pytest.mark.usefixtures("quiet")]

REPORTS = re.compile(r"WARNING: |BUG: |possible circular locking dependency|UBSAN: ")
WRITE = (
    "import mmap, os; f = os.open('{path}', os.O_CREAT | os.O_WRONLY);"
    " assert os.write(f, mmap.mmap(-1, 1 << 20)) == 1 << 20"
)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with watched_guest_with_store(f"t-offd-{os.getpid()}", more=REGION) as made:
        convert_programs(made)
        yield made


@pytest.fixture(scope="module")
def variant() -> str | None:
    return "debug"


def check_locks(machine: Machine) -> None:
    """Start a program of two files, before and behind a write to the file system of its text."""
    forget(machine)
    sh(machine, f"{TRY} && rm -f {NVM}/file")
    sh(machine, f'python3 -c "{WRITE.format(path=f"{NVM}/file")}"')
    forget(machine)
    sh(machine, f"{TRY} && rm {NVM}/file")
    reports = [line for line in sh(machine, "dmesg").stdout.splitlines() if REPORTS.search(line)]
    if out_of_order := [line for line in reports if re.search(DETECTORS["lockdep"], line)]:
        raise BrokenError("lockdep", out_of_order[0])
    assert reports == []
    stats = sh(machine, "cat /proc/lockdep_stats").stdout
    assert re.search(r"debug_locks:\s+1", stats), "lockdep has switched itself off"


def test_no_lock_is_out_of_order(machine: Machine) -> None:
    check_locks(machine)

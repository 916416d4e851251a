# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DRAM as a cache breaks none of the kernel's own rules: KASAN, UBSAN and lockdep are silent.

Goal and method: the rules of test_mixed_memory.py and test_mixed_files.py, and several programs
over several cuts, on the kernel of kernel/config/debug.config. A cut restarts the disk and the
network card, so that rem_virtio_finish() runs under KASAN, too. That these detectors report what is
wrong is shown in tests/hardware/test_debug_kernel.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import CACHE_BYTES, CHECKS, Check
from lab.testbed.mixed_file_checks import FILE_CHECKS
from lab.testbed.mixed_guest import PROGRAMS, mixed_guest, state
from lab.testbed.mixed_map_checks import MAP_CHECKS
from lab.testbed.pm_guest import WATCHED_LIMIT_S, kernel_complaints, sh
from tests.mixed.test_mixed_memory import test_several_programs_go_on_over_several_cuts  # noqa: F401
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

REPORTS = re.compile(r"WARNING: |BUG: |possible circular locking dependency|UBSAN: ")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    kernel = need(Kernel("debug")).bz_image
    name = machine_name("mixed-debug")
    changes = {"boot_limit_s": WATCHED_LIMIT_S, "programs": PROGRAMS}
    with mixed_guest(name, CACHE_BYTES, kernel=kernel, **changes) as made:
        yield made


ALL = CHECKS + FILE_CHECKS + MAP_CHECKS


@pytest.mark.parametrize("check", ALL, ids=[check.__name__ for check in ALL])
def test_rule_holds(machine: Machine, check: Check) -> None:
    check(machine)
    assert state(machine) == "on"
    assert not kernel_complaints(machine)


def test_nothing_was_reported(machine: Machine) -> None:
    assert "kasan" in sh(machine, "zcat /proc/config.gz").stdout.lower()
    assert [line for line in sh(machine, "dmesg").stdout.splitlines() if REPORTS.search(line)] == []
    stats = sh(machine, "cat /proc/lockdep_stats").stdout
    assert re.search(r"debug_locks:\s+1", stats), "lockdep has switched itself off"

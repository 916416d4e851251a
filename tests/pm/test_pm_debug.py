# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The modules break none of the kernel's own rules: KASAN, UBSAN, lockdep, kmemleak are silent.

Goal and method: all of test_pm_guest.py on the kernel of kernel/config/debug.config, with the
modules built for it; then what these watchers have to say. That they do speak is shown by a bug
planted for each, in tests/hardware/test_debug_kernel.py.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import guest_that_watches, load, sh, unload
from tests.pm.conftest import ASIDE
from tests.pm.test_pm_guest import *  # noqa: F403

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200), pytest.mark.usefixtures("quiet")]

KMEMLEAK = "/sys/kernel/debug/kmemleak"
SUSPECT_S = 6.0  # kmemleak suspects what is older than 5 s
# Ours, by the name of a module, or as an address of one that is gone.
OURS = re.compile(r"\[pm(core|bc|ramd)\]|0xffffffffc0")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_that_watches(f"t-pmd-{os.getpid()}") as made:
        sh(made, "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
        yield made


@pytest.fixture(scope="module")
def aside() -> Iterator[Machine]:
    """Instead of conftest's, which has our kernel."""
    with guest_that_watches(f"t-pme-{os.getpid()}", more=ASIDE) as made:
        yield made


def leaks(machine: Machine) -> list[str]:
    """After two scans: what is only just allocated is not reported by the first."""
    for _ in range(2):
        sh(machine, f"echo scan >{KMEMLEAK}")
        time.sleep(SUSPECT_S)
    return [
        line for line in sh(machine, f"cat {KMEMLEAK}").stdout.splitlines() if OURS.search(line)
    ]


def test_no_lock_is_out_of_order_and_no_memory_is_lost(machine: Machine) -> None:
    assert leaks(machine) == []
    unload(machine)
    assert leaks(machine) == []
    stats = sh(machine, "cat /proc/lockdep_stats").stdout
    assert re.search(r"debug_locks:\s+1", stats), "lockdep has switched itself off"
    load(machine)

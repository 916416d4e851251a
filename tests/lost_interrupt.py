# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Boots of guests in a QEMU that now and then loses the first interrupt of a disk's queue.

Seen in about one of 150 cold boots, more on a busy host, before anything of ours has acted: all
CPUs are halted, the device has used every request, and the driver waits for ever (README, "What
is not proved"). A test that is about something else makes such a boot again, once, and says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from lab.errors import HangError
from lab.machine import Machine

SAMPLES = 5
SAMPLE_S = 0.5


def all_halted(machine: Machine) -> bool:
    """Whether no CPU does anything, and nothing is said, each time that one looks."""
    if machine.qemu is None or machine.console is None:
        return False
    said = machine.console.position()
    for _ in range(SAMPLES):
        halted = re.findall(r"\bHLT=(\d)", machine.qemu.qmp.monitor("info registers -a"))
        if not halted or set(halted) != {"1"}:
            return False
        time.sleep(SAMPLE_S)
    return machine.console.position() == said


def wait_guest(machine: Machine, limit_s: float, again: Callable[[], None]) -> None:
    """Until the guest answers; *again* takes the power away and boots it once more."""
    try:
        machine.wait_ready(limit_s)
    except HangError as error:
        if not all_halted(machine):
            raise
        print(f"{machine.config.name}: {error.message}; all CPUs are halted: booted again")
        again()
        machine.wait_ready(limit_s)
    machine.guest.wait_ssh(limit_s)

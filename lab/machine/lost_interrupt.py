# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cold boots that hang in QEMU, which can misroute a CPU's write to its interrupt controller.

Without x2APIC that was about one of 150 cold boots, more on a busy host, before any code of this
project has run: all CPUs are halted, a disk has completed every request, and its driver waits for
ever (machine/README.md, "A write that reaches the wrong device"). Machines with an IOMMU have
x2APICs, which avoid it. A cold boot of a machine without them that hangs this way is repeated once,
with a message on stderr. Nothing else is repeated, because a hang would be our bug: neither a Go,
nor a reset, nor a boot that is itself tested, nor any boot of a machine with x2APICs. A boot under
icount must not depend on observation.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress

from lab.errors import HangError, UsageError
from lab.machine.console import READY_MARK, Console
from lab.machine.parts import MachineParts
from lab.messages import info

CHECK_EVERY_S = 5.0
# No booting kernel is silent and idle for so long; it reports hung tasks only after 120 s.
SAMPLES = 40
SAMPLE_S = 0.5
BOOTED_AGAIN = "QEMU seems to have lost an interrupt"  # tests/conftest.py searches for it


class LostInterrupt(HangError):
    """The boot hangs, and no CPU will ever run again."""


def hangs(machine: MachineParts) -> bool:
    """Whether all CPUs are halted and the console is silent in every sample."""
    if machine.qemu is None or machine.console is None:
        return False
    if machine.config.icount or machine.config.x2apic:
        return False
    position = machine.console.position()
    for _ in range(SAMPLES):
        try:
            halted = re.findall(r"\bHLT=(\d)", machine.qemu.qmp.monitor("info registers -a"))
        except (ConnectionError, TimeoutError):
            return False
        if set(halted) != {"1"} or machine.console.position() != position:
            return False
        time.sleep(SAMPLE_S)
    return machine.console.position() == position


def expect(machine: MachineParts, pattern: str, limit_s: float) -> re.Match[str]:
    """The console's expect() in a cold boot; raises LostInterrupt as soon as the boot hangs."""
    console = console_of(machine)
    end_s = time.monotonic() + limit_s
    while (rest_s := end_s - time.monotonic()) > 0:
        with suppress(HangError):
            return console.expect(pattern, min(rest_s, CHECK_EVERY_S))
        if hangs(machine):
            raise LostInterrupt(console.missing(pattern, "and all CPUs are halted"))
    with suppress(HangError):  # it may have come while the CPUs were sampled
        return console.expect(pattern, 0)
    raise HangError(console.missing(pattern, f"within {limit_s:g} s"))


def console_of(machine: MachineParts) -> Console:
    if machine.console is None:
        raise UsageError(f"machine {machine.config.name!r} has not been booted")
    return machine.console


def wait_ready(machine: MachineParts, limit_s: float, since: int, again: bool) -> None:
    """Machine.wait_ready()."""
    if since or not again:
        console_of(machine).expect(READY_MARK, limit_s, since)
        return
    try:
        expect(machine, READY_MARK, limit_s)
    except LostInterrupt:
        info(
            f"rem: machine {machine.config.name!r}: {BOOTED_AGAIN}: its boot printed nothing, and"
            f" all CPUs were halted for {SAMPLES * SAMPLE_S:g} s. The power is cut, and it boots"
            " once more"
        )
        machine.boot_again()
        expect(machine, READY_MARK, limit_s)

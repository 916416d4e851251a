# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cold boots that hang in QEMU, which can lead astray what a CPU tells its interrupt controller.

Without x2APIC that was about one of 150 cold boots, more on a busy host, before anything of ours
has acted: all CPUs are halted, a disk has used every request, and its driver waits for ever
(machine/README.md, "A write that goes astray"). Machines with an IOMMU keep out of its way. A cold
boot that hangs so all the same is made again, once, and whoever reads stderr is told. A Go is not:
what hangs there is ours. Nor is a reset, nor a boot that is itself looked into, nor one under
icount, whose course must not depend on looks.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress

from lab.errors import HangError, UsageError
from lab.machine.console import READY_MARK, Console
from lab.machine.parts import MachineParts
from lab.messages import info

LOOK_EVERY_S = 5.0
# No kernel that boots is silent and idle for so long; of hung tasks it tells after 120 s only.
SAMPLES = 40
SAMPLE_S = 0.5
BOOTED_AGAIN = "QEMU seems to have lost an interrupt"  # by which a report of tests finds it


class LostInterrupt(HangError):
    """The boot hangs, and no CPU will ever do anything again."""


def hangs(machine: MachineParts) -> bool:
    """Whether no CPU does anything, and nothing is said, each time that one looks."""
    if machine.qemu is None or machine.console is None or machine.config.icount:
        return False
    said = machine.console.position()
    for _ in range(SAMPLES):
        try:
            halted = re.findall(r"\bHLT=(\d)", machine.qemu.qmp.monitor("info registers -a"))
        except (ConnectionError, TimeoutError):
            return False
        if set(halted) != {"1"} or machine.console.position() != said:
            return False
        time.sleep(SAMPLE_S)
    return machine.console.position() == said


def expect(machine: MachineParts, pattern: str, limit_s: float) -> re.Match[str]:
    """As the console's expect(), in a cold boot; LostInterrupt as soon as that is seen to hang."""
    console = console_of(machine)
    end_s = time.monotonic() + limit_s
    while (rest_s := end_s - time.monotonic()) > 0:
        with suppress(HangError):
            return console.expect(pattern, min(rest_s, LOOK_EVERY_S))
        if hangs(machine):
            raise LostInterrupt(console.missing(pattern, "and all CPUs are halted"))
    with suppress(HangError):  # it may have come while the CPUs were looked at
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
            f"rem: machine {machine.config.name!r}: {BOOTED_AGAIN}: nothing was said and all CPUs"
            f" were halted for {SAMPLES * SAMPLE_S:g} s of its boot. Power is taken away, and it"
            " boots again, once"
        )
        machine.boot_again()
        expect(machine, READY_MARK, limit_s)

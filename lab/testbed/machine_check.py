# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A memory controller's containment bit: the machine check that a guest gets for a page.

The controller reports that a line cannot be read (LightPC, section V-A); the CPU reports that to
the kernel. Here QEMU's monitor makes the report (Intel SDM volume 3, chapter 16, recoverable
errors). What becomes of it is Linux's own memory_failure().
"""

from __future__ import annotations

import mmap
import re
import time
from enum import Enum

from lab.errors import HangError, InfraError
from lab.machine.machine import Machine
from lab.machine.qemu import NVRAM_PHYS

# IA32_MCi_STATUS: valid, uncorrected, enabled, with an address and its kind, signalled.
UNCORRECTED = (1 << 63) | (1 << 61) | (1 << 60) | (1 << 59) | (1 << 58) | (1 << 56)
ACTION_REQUIRED = 1 << 55
# IA32_MCi_MISC: a physical address, of a page.
PAGE_ADDRESS = (2 << 6) | 12
# IA32_MCG_STATUS: in progress; the program can go on; the address is the program's.
IN_PROGRESS, RESTARTABLE, OWN_ADDRESS = 4, 1, 2
BANK = 3
PAGE_BYTES = 4096
LIMIT_S = 30.0


class Found(Enum):
    """Who found it: a load of a program, or the controller when it looked at its memory."""

    LOAD = UNCORRECTED | ACTION_REQUIRED | 0x134
    SCRUB = UNCORRECTED | 0xC0


def address_of(machine: Machine, content: bytes) -> int:
    """The physical address of the one page in NVRAM that has this content."""
    found = []
    with (
        machine.files.nvram(machine.config).open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as nvram,
    ):
        at = nvram.find(content)
        while at >= 0:
            if at % PAGE_BYTES == 0:
                found.append(at)
            at = nvram.find(content, at + 1)
    if len(found) != 1:
        raise InfraError(f"{len(found)} pages of the machine have that content")
    return NVRAM_PHYS + found[0]


def report_error(machine: Machine, phys: int, found: Found, cpu: int = 0) -> None:
    """Make *cpu* get a machine check for this physical address.

    A load's is reported while that CPU runs a program, as that load would be the program's.
    """
    assert machine.qemu is not None
    qmp = machine.qemu.qmp
    state = IN_PROGRESS | RESTARTABLE
    if found is Found.LOAD:
        state |= OWN_ADDRESS
        _wait_for_program(machine, cpu)
    words = (cpu, BANK, hex(found.value), hex(state), hex(phys), hex(PAGE_ADDRESS))
    said = qmp.monitor("mce -b " + " ".join(str(word) for word in words)).strip()
    if found is Found.LOAD:
        qmp.execute("cont")
    if said:
        raise InfraError(f"QEMU reports no machine check: {said}")


def _wait_for_program(machine: Machine, cpu: int) -> None:
    """Stop the machine in a moment when the CPU runs no kernel."""
    assert machine.qemu is not None
    qmp = machine.qemu.qmp
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        qmp.execute("stop")
        rings = re.findall(r"\bCPL=(\d)", qmp.monitor("info registers -a"))
        if rings[cpu] == "3":
            return
        qmp.execute("cont")
        time.sleep(0.01)
    raise HangError(f"CPU {cpu} ran no program within {LIMIT_S:g} s")

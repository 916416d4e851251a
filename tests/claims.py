# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of the claims share: a machine that has booted, and cuts that went as they should.

Everything here runs the real thing: set-up's kernel, loader and root in a QEMU of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.commands.demo import make_config
from lab.machine import Machine
from lab.machine.console import kernel_warnings
from lab.machine.note import BootNote

BOOT_LIMIT_S = 240.0
GO_LIMIT_S = 120.0


def machine_name(purpose: str) -> str:
    """One for each test process, so that several may run side by side."""
    return f"t-{purpose}-{os.getpid()}"


@contextmanager
def booted(purpose: str, cpus: int, stop: str) -> Iterator[Machine]:
    """A machine whose guest answers; gone afterwards, whatever happened."""
    kernel = os.environ.get("REM_TEST_KERNEL")  # another bzImage to try
    config = make_config(machine_name(purpose), cpus, stop, Path(kernel) if kernel else None)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_ready(BOOT_LIMIT_S)
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        yield machine


def cut_and_resume(machine: Machine, rtc_offset_s: int = 0) -> BootNote:
    """One power failure that must not be noticed."""
    record = machine.cut()
    assert record.stopped, "no Stop within the hold-up: " + (consoles(machine)[-300:] or "silence")
    assert record.gone, f"QEMU {record.qemu_pid} is still there"
    machine.resume(rtc_offset_s=rtc_offset_s)
    return machine.wait_resumed(GO_LIMIT_S)


def consoles(machine: Machine) -> str:
    """What all boots of the machine have printed."""
    files = sorted(machine.files.directory.glob("console-*.log"))
    return "".join(file.read_text(errors="replace") for file in files)


def warnings(machine: Machine) -> list[str]:
    return kernel_warnings(consoles(machine))

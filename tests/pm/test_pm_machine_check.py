# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine check in a load from media is survived: an error of what was read, and a line listed.

Method: one CPU. While a program reads a disk on a segment, GDB stops the machine at the one
instruction of pmcore's copy that may meet a lost line, and QEMU's monitor raises the machine
check of a CPU that can recover ("action required", data load: Intel SDM volume 3B, section 15.9.2).
So the exception, its handler and the fix-up are the kernel's own; only that media lost something
is made up. Negative proof: the same machine check at the copy's first instruction, which has no
fix-up, is a panic.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lab.machine import Machine
from lab.run import end, spawn
from lab.testbed.pm_guest import guest_with_region, kernel_complaints, load, sh, status
from tests.support.gdb_remote import Gdb

pytestmark = pytest.mark.full

COPY = "pm_fetch"
COPY_BYTES = 256
LOAD = b"\xf3\x48\xa5"  # rep movsq
PATTERN = b"Of the segment. "
FILL = f"yes '{PATTERN.decode()}' | tr -d '\\n'"
BANK = 1
# Valid, uncorrected, enabled, with address, signalled, action required; a load of data.
STATUS = 0xBD80_0000_0000_0134
MCG_STATUS = 7  # the CPU can go on, at the instruction of the exception
MISC = 0x86  # a physical address, of a line
LIMIT_S = 120.0
DISK = "/dev/pmrd0"
READ = f"dd if={DISK} of=/dev/null bs=4096 count=1 iflag=direct status=none"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_region(f"t-pmx-{os.getpid()}", cpus=1) as made:
        load(made, "format=1")
        sh(made, "pmadmin create raw 64K")
        sh(made, f"{FILL} | head -c 64K >/dev/pm/raw")
        assert sh(made, "pmadmin ramdisk add raw").stdout.strip() == DISK
        yield made


def address(machine: Machine) -> int:
    """Of the copy, wherever this boot has it."""
    # The kernel has one of this name, too, for what pminit reads.
    return int(sh(machine, rf"grep '{COPY}\s\[pmcore\]' /proc/kallsyms").stdout.split()[0], 16)


def run_to_copy_of_media(gdb: Gdb, copy: int) -> None:
    """To the copy's first instruction; the core reads its own records by it, too."""
    gdb.run_to(copy)
    while gdb.read(gdb.rsi(), len(PATTERN)) != PATTERN:
        gdb.step()
        gdb.run_to(copy)


def raise_machine_check(machine: Machine, phys: int) -> None:
    """Before the next instruction; the VM is stopped."""
    assert machine.qemu is not None
    words = f"mce 0 {BANK} {STATUS:#x} {MCG_STATUS} {phys:#x} {MISC:#x}"
    assert not machine.qemu.qmp.monitor(words).strip()


@contextmanager
def reader(machine: Machine) -> Iterator[subprocess.Popen[str]]:
    """Begun while the VM is stopped: all that it reads comes after the breakpoint is set."""
    argv = machine.guest.command_line(READ)
    child = spawn(argv, cwd=machine.files.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        end(child)


def test_machine_check_in_a_load_from_media_is_an_error_of_it(machine: Machine) -> None:
    phys, copy = status(machine)["phys"], address(machine)
    with ExitStack() as stack:
        with Gdb(machine) as gdb:
            child = stack.enter_context(reader(machine))
            load_at = copy + gdb.read(copy, COPY_BYTES).index(LOAD)
            # The copy of the disk's driver, and then the first line of the search for the lost one.
            for _ in range(2):
                run_to_copy_of_media(gdb, copy)
                gdb.run_to(load_at)
                raise_machine_check(machine, phys)
        _, printed = child.communicate(timeout=LIMIT_S)
        assert child.returncode
    assert "No data available" in printed  # as block devices report a medium error
    listed = sh(machine, "pmadmin --json lost", check=False).stdout.replace(" ", "")
    assert listed.strip() == '[{"name":"raw","offset":0,"bytes":512}]'
    sh(machine, f"{FILL} | dd of={DISK} bs=4096 count=1 iflag=fullblock oflag=direct status=none")
    assert sh(machine, "pmadmin --json lost").stdout.strip() == "[]"
    sh(machine, READ)
    assert not kernel_complaints(machine)


@pytest.mark.in_turn
def test_the_same_where_there_is_no_fix_up_is_a_panic(machine: Machine) -> None:
    """The negative proof: it is the load's own entry in the kernel's table that survives it."""
    assert machine.console is not None
    before = machine.console.position()
    phys, copy = status(machine)["phys"], address(machine)
    with ExitStack() as stack:
        with Gdb(machine) as gdb:
            stack.enter_context(reader(machine))
            run_to_copy_of_media(gdb, copy)
            raise_machine_check(machine, phys)
        machine.console.expect("Kernel panic - not syncing: ", LIMIT_S, before)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each rule of flushes that end in memory: the kernel that breaks it is found by the verdict that
the planted bug names. The control on the same kernel is test_rule_holds, with the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed import fsync_guest as guest
from lab.testbed import redo_guest as redo
from lab.testbed.fsx import EXT4, FOLDER
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import sh
from lab.verdict import BrokenError
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found
from tests.support.turns import most_in_turn

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

STEPS = 100
BIG = 12  # MiB; two of them are more than the log has
FILL = (
    "import os, sys; data = bytes([int(sys.argv[2])]) * (1 << 20)\n"
    f"fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); [os.pwrite(fd, data, n << 20)"
    f" for n in range({BIG})]; os.fsync(fd)"
)
# Writes that wait for the disk's media, each to a place of an earlier one, and then read.
DIRECT_BLOCKS = 8
AGAIN = f"""
import mmap, os, sys
block = mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
for step in range(int(sys.argv[2])):
    at = step % {DIRECT_BLOCKS} * 4096
    block[:] = step.to_bytes(8, "little") * 512
    os.pwritev(fd, [block], at)
    os.preadv(fd, [block], at)
    if (found := int.from_bytes(block[:8], "little")) != step:
        sys.exit(f"step {{step}}: the disk has {{found}}")
"""
# Each write is larger than what the planted bug delays.
DIRECT = "while dd if=/dev/zero of={}/direct bs=256k count=40 oflag=direct conv=notrunc; do :; done"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with redo.redo_guest(machine_name("redo-bugs")) as made:
        yield made


def begin(machine: Machine) -> None:
    """In force, with nothing planted, and a new file system."""
    if guest.state(machine) == "memory":
        plant(machine, NONE)
    else:
        guest.lose_power(machine)
        guest.replay(machine, "--discard", check=False)
    for number, state, *_ in redo.rings(machine):
        if state != "used":
            sh(machine, f"echo {number} give-up >{guest.SYSFS}/redo")
    redo.begin(machine, EXT4)


def look(machine: Machine, acked: int) -> None:
    redo.found_again(machine, EXT4)
    redo.check_files(machine, f"{FOLDER}/new", acked)
    redo.check_disk(machine, EXT4)


def promises_are_kept(machine: Machine) -> None:
    redo.make_files(machine, f"{FOLDER}/new", STEPS)
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    machine.boot()
    guest.wait_up(machine)
    look(machine, STEPS)


def another_cpu_copies(machine: Machine) -> None:
    """While large writes are copied, files are synced by the other CPU."""
    direct = DIRECT.format(FOLDER)
    sh(machine, f"setsid sh -c '{direct}' </dev/null >/dev/null 2>&1 &")
    files = redo.new_files(machine, f"{FOLDER}/new")
    try:
        files.wait(STEPS // 4)
        machine.cut(UNANNOUNCED)
    finally:
        files.close()
    machine.guest.close()
    machine.boot()
    guest.wait_up(machine)
    look(machine, files.steps)


def left_state_has_all_on_the_disk(machine: Machine) -> None:
    files = redo.new_files(machine, f"{FOLDER}/new")
    try:
        files.wait(STEPS // 2)
        sh(machine, f"echo disk >{guest.SYSFS}/state")
        files.wait(STEPS // 8)
        machine.cut(UNANNOUNCED)
    finally:
        files.close()
    machine.guest.close()
    guest.boot_without_registry(machine, redo.REGISTRY_MIB << 20)
    look(machine, files.steps)


def direct_file(machine: Machine) -> str:
    """A file of DIRECT_BLOCKS whose writes need no journal any more."""
    path = f"{FOLDER}/again"
    sh(machine, f"dd if=/dev/zero of={path} bs=4k count={DIRECT_BLOCKS} conv=fsync 2>/dev/null")
    sh(machine, f"for to in disk memory; do echo $to >{guest.SYSFS}/state; done")
    return path


def what_is_written_is_read(machine: Machine) -> None:
    words = ["python3", "-c", AGAIN, direct_file(machine), str(STEPS)]
    before = redo.ring(machine).ended_writes
    done = machine.guest.run(words, check=False)
    if not done.ok:
        raise BrokenError("undone", done.stderr.strip())
    assert redo.ring(machine).ended_writes - before >= STEPS, "the writes have waited for the disk"


def left_state_has_all_writes_on_the_disk(machine: Machine) -> None:
    path = direct_file(machine)
    write = f"tr '\\0' N </dev/zero | dd of={path} bs=4k count={DIRECT_BLOCKS} iflag=fullblock"
    sh(machine, f"{write} oflag=direct,dsync conv=notrunc 2>/dev/null")
    sh(machine, f"echo disk >{guest.SYSFS}/state")
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    guest.boot_without_registry(machine, redo.REGISTRY_MIB << 20)
    redo.found_again(machine, EXT4)
    size = int(sh(machine, f"tr -dc N <{path} | wc -c").stdout)
    if size != DIRECT_BLOCKS * 4096:
        raise BrokenError("promises-broken", f"the disk has {size} bytes of what was written")
    redo.check_disk(machine, EXT4)


@contextmanager
def boots_with(machine: Machine, name: str) -> Iterator[None]:
    before = machine.config
    words = f"{before.cmdline_extra} remanence.mutant={name}" if name else before.cmdline_extra
    machine.config = replace(before, cmdline_extra=words)
    try:
        yield
    finally:
        machine.config = before


def nothing_older_comes_back(machine: Machine, name: str = "") -> None:
    for letter in (65, 66):
        machine.guest.run(["python3", "-c", FILL, f"{FOLDER}/big", str(letter)])
    guest.drain(machine)  # nothing but the ring has it
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    with boots_with(machine, name):
        machine.boot()
        guest.wait_up(machine)
    assert redo.redone(machine)[0] > 0
    redo.found_again(machine, EXT4)
    size = int(sh(machine, f"tr -dc B <{FOLDER}/big | wc -c").stdout)
    if size != BIG << 20:
        raise BrokenError("undone", f"{(BIG << 20) - size} bytes are older than what was synced")
    redo.check_disk(machine, EXT4)


Check = Callable[[Machine], None]
BUGS: dict[str, Check] = {
    "redo-fua-unpublished": promises_are_kept,
    "redo-head-early": promises_are_kept,
    "redo-uncopied": another_cpu_copies,
    "redo-unpromised": left_state_has_all_on_the_disk,
    "redo-flush-dropped": left_state_has_all_on_the_disk,
    "redo-behind-overtaken": what_is_written_is_read,
    "redo-behind-uncopied": promises_are_kept,
    "redo-behind-undrained": left_state_has_all_writes_on_the_disk,
}
CHECKS = (*dict.fromkeys(BUGS.values()), nothing_older_comes_back)


@pytest.mark.parametrize("check", most_in_turn(CHECKS, always={promises_are_kept}))
def test_rule_holds(machine: Machine, check: Check) -> None:
    begin(machine)
    check(machine)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(machine: Machine, name: str) -> None:
    begin(machine)
    plant(machine, name)
    with must_be_found(name):
        BUGS[name](machine)


def test_redo_of_what_was_not_promised_is_found(machine: Machine) -> None:
    begin(machine)
    with must_be_found("redo-beyond"):
        nothing_older_comes_back(machine, "redo-beyond")

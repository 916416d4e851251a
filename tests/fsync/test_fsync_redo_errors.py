# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: where writes end at their copy in memory, a disk that fails one afterwards loses nothing.

Nobody can be told of the error any more: all I/O fails from then on, the kernel says why, and the
copy goes to the disk when the log ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.paths import repo_dir
from lab.setup.products import need
from lab.setup.slow_disk import SlowDisk
from lab.testbed import fsync_guest as guest
from lab.testbed import redo_guest as redo
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from tests.support.claims import machine_name

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

DISK_MIB = 64
DISK = "/dev/rem_disk"
PARAMETERS = "/sys/module/rem_disk/parameters"
ANSWER_NS = 500_000_000  # of a write, so that its program is told that it is safe before
BLOCK_BYTES = 4096
ANSWER_LIMIT_S = REDO_LIMIT_S = 60.0


@pytest.fixture
def machine() -> Iterator[Machine]:
    """With a log in force on a disk that can fail."""
    with guest.fsync_guest(machine_name("redo-errors"), redo.REDO, registry=redo.REGISTRY) as made:
        made.guest.put(need(SlowDisk()), "/root/rem_disk.ko")
        made.guest.put(repo_dir() / "lab" / "testbed" / "dm_table.py", redo.TABLE)
        sh(made, f"insmod /root/rem_disk.ko mib={DISK_MIB}")
        table = f"0 $(blockdev --getsz {DISK}) remanence-log {DISK} {redo.LOG_MIB}"
        sh(made, f'python3 {redo.TABLE} create {redo.LOG} "{table}"')
        wait_until(
            lambda: guest.state(made) == "memory", "a Stop is promised", redo.PROMISE_LIMIT_S
        )
        assert redo.ring(made).state == "memory"
        yield made


def write(machine: Machine, block: int, letter: str) -> bool:
    """Whether a block of so many letters was written, and is promised."""
    words = f"tr '\\0' {letter} </dev/zero | dd of={redo.DEVICE} bs={BLOCK_BYTES} count=1"
    flags = f"seek={block} iflag=fullblock oflag=direct,dsync conv=notrunc"
    return sh(machine, f"{words} {flags} 2>/dev/null", check=False).ok


def letters(machine: Machine, block: int) -> str:
    """Of a block on the disk itself."""
    read = f"dd if={DISK} bs={BLOCK_BYTES} count=1 skip={block} iflag=direct 2>/dev/null"
    return sh(machine, f"{read} | tr -s A-Z").stdout


def test_write_that_the_disk_fails_later_is_kept(machine: Machine) -> None:
    assert write(machine, 0, "A") and write(machine, 1, "B")
    before = redo.ring(machine)
    sh(machine, f"cd {PARAMETERS} && echo {ANSWER_NS} >write_ns && echo 1 >fail_writes")
    assert write(machine, 0, "C"), "it was to end at its copy"
    why = "rem_disk has failed a write that had ended in memory"
    wait_until(lambda: why in sh(machine, "dmesg").stdout, "the disk answers", ANSWER_LIMIT_S)
    assert not write(machine, 1, "D"), "I/O goes on after a write that was lost"
    sh(machine, f"cd {PARAMETERS} && echo 0 >write_ns && echo 0 >fail_writes")
    assert not write(machine, 1, "D"), "the device came back by itself"
    assert letters(machine, 0) == "A", "the disk has what it failed"
    assert redo.ring(machine).ended_writes == before.ended_writes + 1
    redo.log_off(machine)
    wait_until(lambda: letters(machine, 0) == "C", "the copy is written", REDO_LIMIT_S)
    assert letters(machine, 1) == "B"


def test_disk_that_fails_nothing_goes_on(machine: Machine) -> None:
    """The same without the error."""
    for letter in "AC":
        assert write(machine, 0, letter) and write(machine, 1, letter)
    redo.log_off(machine)
    assert letters(machine, 0) == "C" and letters(machine, 1) == "C"

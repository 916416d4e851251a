# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: fsync that ends in memory and Linux' own hibernation get on: an image has no page that is
registered, and what is acknowledged after it was entered is found again. With the log of a disk in
NVRAM there is no hibernation.

Method: the machine switches itself off with its image on a second disk; the loader runs, as at any
boot, and the kernel enters the image. Then an fsync, and a power failure without a Stop. The
negative proof: a kernel that hibernates as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from lab.errors import HangError, RemError
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.setup.kernel import FILESYSTEMS
from lab.setup.products import Kernel, need
from lab.testbed.fsync_checks import BYTES, KNOWN, SYNCED, expect, lose_and_replay, program
from lab.testbed.fsync_guest import BOOT_LIMIT_S, fsync_guest, lose_power, replay, state
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.waiting import wait_until
from lab.verdict import StuckError
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

DISK = "/dev/vdb"
DISK_BYTES = 768 << 20
OFF_LIMIT_S = 300.0
ENTER_LIMIT_S = 10.0  # the connection never ends, as its machine is off


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    kernel = need(Kernel(FILESYSTEMS)).bz_image
    name, words = machine_name("fsync-hibernates"), f"resume={DISK}"
    with fsync_guest(name, words, kernel=kernel, blank_bytes=DISK_BYTES) as made:
        sh(made, f"mkswap -q {DISK}")
        yield made


def boot_id(machine: Machine) -> str:
    return sh(machine, "cat /proc/sys/kernel/random/boot_id").stdout


def hibernate(machine: Machine) -> None:
    """Until it is off; then it is switched on, and has entered the image."""
    before = boot_id(machine)
    sh(machine, f"swapon {DISK} && echo shutdown >/sys/power/disk")
    assert machine.qemu is not None
    qmp = machine.qemu.qmp
    qmp.execute("set-action", shutdown="pause")
    with suppress(RemError):
        machine.guest.run("echo disk >/sys/power/state", limit_s=ENTER_LIMIT_S)
    try:
        wait_until(
            lambda: qmp.execute("query-status")["status"] != "running", "it is off", OFF_LIMIT_S
        )
    except HangError as error:
        raise StuckError(error.message) from error
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    machine.boot()
    machine.guest.wait_ssh(BOOT_LIMIT_S)
    assert boot_id(machine) == before
    sh(machine, f"swapoff {DISK}")


def later_fsync_is_found(machine: Machine, path: str) -> None:
    program(machine, SYNCED, path)
    hibernate(machine)
    assert state(machine) == "memory"
    expect(machine, path, f"b{BYTES}")
    program(machine, KNOWN.replace('b"a"', 'b"c"') + 'put(b"d"); os.fsync(fd)\n', path)
    lose_and_replay(machine)
    expect(machine, path, f"d{BYTES}")


def test_what_is_acknowledged_later_is_found(machine: Machine) -> None:
    later_fsync_is_found(machine, "/root/hibernates")
    assert not kernel_complaints(machine)


def test_pages_that_are_registered_in_an_image_are_found(machine: Machine) -> None:
    plant(machine, "fsync-hibernates")
    with must_be_found("fsync-hibernates"):
        try:
            later_fsync_is_found(machine, "/root/planted")
        finally:
            lose_power(machine)
            replay(machine, "--discard", check=False)
            plant(machine, NONE)

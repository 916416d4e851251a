# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-vm` on a host that is Remanence itself.

Goal: a guest goes on with its host, and needs no record for that; where the host boots cold, it
goes on from what `rem-vm` has saved, and from nothing else. Method: a machine of ours with QEMU in
it, cut and resumed; the guest counts on the machine's console and checks its own memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.testbed.nested_host import NestedHost, nested_host

pytestmark = [pytest.mark.full, pytest.mark.in_turn("file"), pytest.mark.timeout(3600)]

BOOT_ID = "cat /proc/sys/kernel/random/boot_id; pidof qemu-system-x86_64"
RESUME_LIMIT_S = 300.0


@pytest.fixture(scope="module")
def host() -> Iterator[NestedHost]:
    with nested_host(f"t-vmrem-{os.getpid()}", debian=False) as host:
        yield host


def begin(host: NestedHost) -> None:
    """A guest that counts."""
    if not host.serves:
        host.start()
    host.wait_counts()


@pytest.mark.parametrize("cuts", [2, pytest.param(25, marks=pytest.mark.soak)])
def test_guest_goes_on_with_its_host(host: NestedHost, cuts: int) -> None:
    """The same QEMU in the same boot of the host."""
    begin(host)
    before = host.sh(BOOT_ID).stdout
    for _ in range(cuts):
        assert host.cut().stopped
        last = host.counts()[-1]
        host.machine.resume()
        host.machine.wait_resumed(RESUME_LIMIT_S)
        assert host.sh(BOOT_ID).stdout == before
        host.check_goes_on(last)
    host.stop()


def test_guest_goes_on_where_its_host_boots_cold(host: NestedHost) -> None:
    """It was saved to NVRAM that is no main memory, and main memory is lost."""
    begin(host)
    last = host.boot_after_a_stop()
    assert host.start()["reason"] == "resume"
    host.check_goes_on(last)
    host.stop()


def test_guest_that_ran_when_the_host_boots_cold_begins_again(host: NestedHost) -> None:
    """Negative proof: nothing of it is entered, for it has run on since it was saved."""
    begin(host)
    assert host.cut().stopped
    host.machine.boot(cold=True)
    host.machine.wait_up(RESUME_LIMIT_S)
    host.begin()
    assert host.start()["reason"] in ("no-record", "not-committed", "already-consumed")
    assert host.wait_counts()[0] == 1

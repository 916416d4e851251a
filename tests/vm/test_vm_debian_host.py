# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-vm` on a host that is a machine: Debian with an NVDIMM, whose power is cut.

Goal: with Debian's kernel, Debian's QEMU and a DAX file system on an NVDIMM, a guest goes on after
a power failure of its host, and boots cold with a reason where it was not saved. Method: the drop
of PWR_OK comes by the machine's serial line, and its QEMU gets SIGKILL; a fresh Debian boots. The
guest counts on the machine's console and checks its own memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab import format as fmt
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed.nested_host import FOLDER, NAME, NestedHost, nested_host
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.in_turn("file"), pytest.mark.timeout(3600)]

COLD = ("no-record", "not-committed", "already-consumed")
CACHES = "wsp-c5528"


@pytest.fixture(scope="module")
def host() -> Iterator[NestedHost]:
    with nested_host(f"t-vmdeb-{os.getpid()}", debian=True) as host:
        yield host


def begin(host: NestedHost) -> None:
    """A guest that counts, saved by none or by an earlier test."""
    status = host.status() if host.serves else host.start()
    assert status["runs"]
    assert status["persistent"]
    host.wait_counts()


@pytest.mark.parametrize("cuts", [2, pytest.param(25, marks=pytest.mark.soak)])
def test_guest_goes_on_after_each_cut(host: NestedHost, cuts: int) -> None:
    begin(host)
    assert host.status()["in_place"]
    for _ in range(cuts):
        cut = host.cut()
        assert cut.stopped
        last = host.counts()[-1]
        host.power_on()
        assert host.start()["reason"] == "resume"
        host.check_goes_on(last)
    host.stop()


def test_planned_stop_keeps_the_guest_for_another_boot(host: NestedHost) -> None:
    begin(host)
    last = host.boot_after_a_stop()
    assert host.start()["reason"] == "resume"
    host.check_goes_on(last)


def test_cut_without_a_save_boots_cold(host: NestedHost) -> None:
    begin(host)
    host.cut(UNANNOUNCED)
    host.power_on()
    status = host.start()
    assert not status["resumed"]
    assert status["reason"] in COLD
    assert host.wait_counts()[0] == 1


def test_save_without_its_commit_is_not_entered(host: NestedHost) -> None:
    """Negative proof: the image is there, and its commit words are taken away."""
    begin(host)
    assert host.cut().stopped
    host.power_on()
    for slot in (0, 1):
        at = fmt.CONST["REM_VM_COMMIT_OFFSET"] + slot * fmt.CONST["REM_VM_SLOT_BYTES"]
        host.sh(
            f"dd if=/dev/zero of={FOLDER}/{NAME}/record bs=1 seek={at} "
            f"count={fmt.size_of('rem_word')} conv=notrunc,fsync status=none"
        )
    status = host.start()
    assert not status["resumed"]
    assert status["reason"] in COLD
    assert host.wait_counts()[0] == 1


def test_memory_in_dram_is_named_and_its_guest_boots_cold() -> None:
    """Negative proof: all but the guest's memory is on the NVDIMM."""
    name = f"t-vmdram-{os.getpid()}"
    with nested_host(name, debian=True, ram="/dev/shm/counter.ram") as host:
        begin(host)
        assert not host.status()["in_place"]
        assert host.cut().stopped
        host.power_on()
        assert host.start()["reason"].partition(":")[0] == "memory-differs"
        assert host.wait_counts()[0] == 1


def check_goes_on_after_a_cut(host: NestedHost) -> None:
    begin(host)
    assert host.cut().stopped
    last = host.counts()[-1]
    host.power_on()
    assert host.start()["reason"] == "resume"
    host.check_goes_on(last)


@pytest.mark.soak
def test_sync_writes_back_what_is_in_caches() -> None:
    with nested_host(f"t-vmsync-{os.getpid()}", debian=True, caches=CACHES) as host:
        check_goes_on_after_a_cut(host)


@pytest.mark.soak
def test_sync_left_out_is_found() -> None:
    """Negative proof: the host claims that its caches outlive the power, and they do not."""
    name = f"t-vmlost-{os.getpid()}"
    with (
        nested_host(name, debian=True, persistent=True, caches=CACHES) as host,
        pytest.raises(BrokenError),
    ):
        check_goes_on_after_a_cut(host)

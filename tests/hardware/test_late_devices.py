# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 10, and 3): disks and drivers that appear after boot are prepared like those of
boot. A disk found by a rescan, or bound to its driver again, has its volatile cache switched off; a
driver bound again on the virtio bus has other queues and vectors, so the machine uses stop=dpm. A
machine of more than 128 PCI functions stays on the fast path.

Method: QEMU plugs a disk with a volatile cache into a root port, and the guest rescans the bus,
then binds the driver again. Negative proofs: planted bugs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.machine.console import kernel_warnings
from lab.testbed.planted import NONE, plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

DEVICES = (
    "pcie-root-port,id=rp0,chassis=1,slot=1,addr=5",
    "virtio-rng-pci,disable-legacy=on,iommu_platform=on,addr=6",
)
# More functions than fast-path lists had room for; they have no driver.
MANY = tuple(
    f"pvpanic-pci,multifunction=on,addr={slot:#x}.{function:#x}"
    for slot in range(0x08, 0x1C)
    for function in range(8)
)
SYSFS = "/sys/kernel/remanence"
PREPARED_LIMIT_S = 10.0
POLL_S = 0.2
LISTED_S = 5.0  # the planted bug waits for 2 s
DISK = "vdb"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@contextmanager
def machine(
    purpose: str, mutants: bool = False, devices: tuple[str, ...] = DEVICES
) -> Iterator[Bed]:
    with booted_bed(purpose, mutants=mutants, devices=devices) as it:
        assert stop_mode(it) == "fast"
        yield it


def stop_mode(it: Bed) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/stop_mode").stdout.strip()


def plug_disk(it: Bed) -> None:
    assert it.machine.qemu is not None
    qmp = it.machine.qemu.qmp
    node: dict[str, Any] = {"driver": "null-co", "node-name": "late", "size": 1 << 30}
    qmp.execute("blockdev-add", **node)
    disk: dict[str, Any] = {"driver": "virtio-blk-pci", "id": "late-disk", "drive": "late"}
    disk |= {"bus": "rp0", "disable-legacy": "on", "iommu_platform": True, "write-cache": "on"}
    qmp.execute("device_add", **disk)


def policy(it: Bed) -> str:
    """The policy of the late disk, as soon as it is not `open`, or at the end of the limit."""
    end_s = time.monotonic() + PREPARED_LIMIT_S
    while True:
        shown = it.machine.run_in_guest(f"cat {SYSFS}/disks").stdout
        found = dict(line.split() for line in shown.splitlines()).get(DISK, "absent")
        if found not in {"open", "absent"} or time.monotonic() > end_s:
            return found
        time.sleep(POLL_S)


def check_disk_of_a_rescan_is_prepared(it: Bed) -> None:
    """Inner check: a disk that a rescan finds."""
    plug_disk(it)
    it.machine.run_in_guest("echo 1 > /sys/bus/pci/rescan")
    if (found := policy(it)) != "write-through":
        raise BrokenError("open-disk", f"a disk found by a rescan is {found}")


def check_disk_bound_again_is_prepared(it: Bed) -> None:
    """Inner check: the disk's driver is bound to it again."""
    device = it.machine.run_in_guest(f"basename $(readlink /sys/block/{DISK}/device)").stdout
    driver = "/sys/bus/virtio/drivers/virtio_blk"
    it.machine.run_in_guest(
        f"echo {device.strip()} > {driver}/unbind && echo {device.strip()} > {driver}/bind"
    )
    if (found := policy(it)) != "write-through":
        raise BrokenError("open-disk", f"a disk that was bound again is {found}")


def check_bound_again_is_noticed(it: Bed) -> None:
    """Inner check: queues and vectors of the device are new, and the list has the old ones."""
    device = it.machine.run_in_guest("ls /sys/bus/virtio/drivers/virtio_rng | grep ^virtio").stdout
    driver = "/sys/bus/virtio/drivers/virtio_rng"
    it.machine.run_in_guest(
        f"echo {device.strip()} > {driver}/unbind && echo {device.strip()} > {driver}/bind"
    )
    if stop_mode(it) == "fast":
        raise BrokenError("does-not-continue", "the fast path has vectors that are not in use")


def test_disk_that_appears_later_is_prepared() -> None:
    with machine("late-disk") as it:
        check_disk_of_a_rescan_is_prepared(it)
        check_disk_bound_again_is_prepared(it)
        assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
def test_driver_bound_again_keeps_the_machine_on_the_portable_path() -> None:
    with machine("rebind") as it:
        check_bound_again_is_noticed(it)
        it.machine.guest.close()
        assert it.machine.cut().stopped
        it.resume()
        it.machine.run_in_guest("head -c 16 /dev/hwrng > /dev/null", limit_s=PREPARED_LIMIT_S)
        assert it.kept()


@pytest.mark.in_turn
def test_bug_is_found() -> None:
    """Each check passes in the same machine without the bug. What is noticed turns the fast path
    off, so the driver comes first.
    """
    with machine("late-bug", mutants=True) as it:
        plant(it.machine, "forget-rebind")
        with must_be_found("forget-rebind"):
            check_bound_again_is_noticed(it)
        plant(it.machine, NONE)
        check_bound_again_is_noticed(it)
        plant(it.machine, "forget-late-disk")
        with must_be_found("forget-late-disk"):
            check_disk_of_a_rescan_is_prepared(it)
        plant(it.machine, NONE)
        check_disk_bound_again_is_prepared(it)


def plug_nvme(it: Bed) -> None:
    assert it.machine.qemu is not None
    qmp = it.machine.qemu.qmp
    node: dict[str, Any] = {"driver": "null-co", "node-name": "late", "size": 1 << 30}
    qmp.execute("blockdev-add", **node)
    disk: dict[str, Any] = {"driver": "nvme", "id": "late-disk", "drive": "late"}
    qmp.execute("device_add", **disk, serial="late", bus="rp0")
    it.machine.run_in_guest("echo 1 > /sys/bus/pci/rescan")
    it.machine.run_in_guest(
        f"until grep nvme0n1 {SYSFS}/disks; do sleep 0.1; done", limit_s=PREPARED_LIMIT_S
    )


def check_disk_may_go_while_it_is_listed(it: Bed) -> None:
    """Inner check: somebody lists the disks while an NVMe disk is removed. Memory that was freed is
    zero (init_on_free=1), so who still reads the namespace follows a null pointer."""
    it.machine.run_in_guest(f"cat {SYSFS}/disks > /root/listed 2>&1 &")
    it.machine.run_in_guest("echo 1 > $(readlink -f /sys/block/nvme0n1/device/device)/remove")
    time.sleep(LISTED_S)
    assert it.machine.console is not None
    if found := kernel_warnings(it.machine.console.text()):
        raise BrokenError("kernel-warns", found[0])
    assert "nvme" not in it.machine.run_in_guest(f"cat {SYSFS}/disks").stdout


@pytest.mark.in_turn
def test_disk_may_go_while_it_is_listed() -> None:
    """With and without the planted bug; the machine does not outlive it."""
    words = "nokaslr init_on_free=1 panic=0"
    with booted_bed("ns", mutants=True, devices=DEVICES, cmdline_extra=words) as it:
        plug_nvme(it)
        check_disk_may_go_while_it_is_listed(it)
    with booted_bed("ns-bug", mutants=True, devices=DEVICES, cmdline_extra=words) as it:
        plug_nvme(it)
        plant(it.machine, "forget-namespace")
        with must_be_found("forget-namespace"):
            check_disk_may_go_while_it_is_listed(it)


@pytest.mark.soak
def test_machine_of_many_functions_is_on_the_fast_path() -> None:
    with machine("many", devices=MANY) as it:
        functions = it.machine.run_in_guest("ls /sys/bus/pci/devices | wc -l").stdout
        assert int(functions) > 128
        it.machine.guest.close()
        assert it.machine.cut().stopped
        it.resume()
        assert it.kept()

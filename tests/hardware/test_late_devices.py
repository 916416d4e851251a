# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 10, and 3): disks and drivers that appear after boot are prepared like those of
boot. A disk found by a rescan, or bound to its driver again, has its volatile cache switched off. A
function that was removed and found again, or whose driver was bound again, has other queues and
vectors: the machine uses stop=dpm until the list of functions is a new one, and stop=fast again
after that; so it is when a driver is gone that the fast path cannot restart. A machine of more than
128 PCI functions stays on the fast path.

Method: QEMU plugs a disk with a volatile cache into a root port, and the guest rescans the bus,
then binds the driver again; the same with a source of random numbers, which must give some after
each cut. Negative proofs: planted bugs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.machine import MachineState
from lab.machine.console import kernel_warnings
from lab.testbed.planted import NONE, plant
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

DEVICES = (
    "pcie-root-port,id=rp0,chassis=1,slot=1,addr=5",
    "virtio-rng-pci,disable-legacy=on,iommu_platform=on,addr=6",
    "virtio-rng-pci,disable-legacy=on,iommu_platform=on,addr=8",
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
# A busy host makes a Stop long, which must not be why a bound is missed.
HOLD_UP = "nokaslr remanence.hold_up_us=10000000 remanence.preempt_off_us=2000000"
RNGS, BLOCKING, LATE = ("0000:00:06.0", "0000:00:08.0"), "0000:00:07.0", "0000:01:00.0"
NIC = "0000:00:09.0"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@contextmanager
def machine(
    purpose: str,
    mutants: bool = False,
    devices: tuple[str, ...] = DEVICES,
    hold_up: bool = False,
) -> Iterator[Bed]:
    words = HOLD_UP if hold_up else "nokaslr"
    with booted_bed(purpose, mutants=mutants, devices=devices, cmdline_extra=words) as it:
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


DRIVER = "/sys/bus/virtio/drivers/virtio_rng"
A, B = (f"$(basename /sys/bus/pci/devices/{function}/virtio*)" for function in RNGS)


def leave_one(it: Bed) -> None:
    it.machine.run_in_guest(f"echo {B} >{DRIVER}/unbind")
    wait_mode(it, "fast")


def bind_again(it: Bed, then: str = "true") -> None:
    """On the virtio bus, after leave_one(): B gets the interrupts that A had, and A others."""
    steps = f"sleep 1; echo {A} >unbind && echo {B} >bind && echo {A} >bind && {then}"
    it.machine.run_in_guest(f"cd {DRIVER}; setsid sh -c '{steps}' >/dev/null 2>&1 </dev/null &")
    it.machine.guest.close()


def find_again(it: Bed) -> None:
    """On the PCI bus."""
    for function in RNGS:
        it.machine.run_in_guest(f"echo 1 > /sys/bus/pci/devices/{function}/remove")
    it.machine.run_in_guest("echo 1 > /sys/bus/pci/rescan")


def leave_one_and_bind_again(it: Bed) -> None:
    leave_one(it)
    bind_again(it)
    time.sleep(2)
    it.machine.run_in_guest(f"until test -e {DRIVER}/{A} -a -e {DRIVER}/{B}; do sleep 0.1; done")


def recover_again(it: Bed) -> None:
    """On the PCI bus, a driver that recovers its device."""
    it.machine.run_in_guest(
        f"cd /sys/bus/pci/drivers/e1000e; echo {NIC} >unbind && echo {NIC} >bind"
        " && ip link set eth1 up"
    )


AGAIN = {"bound": leave_one_and_bind_again, "found": find_again, "recovered": recover_again}


def wait_mode(it: Bed, mode: str) -> None:
    wait_until(lambda: stop_mode(it) == mode, f"stop_mode is {mode}", PREPARED_LIMIT_S)


def stops_by(it: Bed) -> str:
    """How the newest image was made."""
    slot = it.record().newest
    assert slot is not None and slot.body is not None
    return slot.body.stop_mode


def check_gives_numbers(it: Bed) -> None:
    """Inner check: each source of random numbers goes on after a cut by the fast path."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    assert stops_by(it) == "FAST"
    it.resume()
    check_still_gives_numbers(it)


def check_still_gives_numbers(it: Bed) -> None:
    """As the kernel reads ahead, more than it may have read."""
    read = (
        "cd /sys/class/misc/hw_random; for n in 0 1; do echo virtio_rng.$n > rng_current;"
        " timeout 10 head -c 4096 /dev/hwrng | wc -c; done"
    )
    found = it.machine.run_in_guest(read, check=False, limit_s=PREPARED_LIMIT_S * 4).stdout
    if found != "4096\n4096\n":
        raise BrokenError("does-not-continue", f"the devices give {found.split()} after Go")
    assert it.kept()


def status(it: Bed) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip()


def check_plugged_function_is_noticed(it: Bed) -> None:
    """Inner check: the loader has not described it, so nothing is promised."""
    wait_mode(it, "fast")
    time.sleep(LISTED_S)
    if (shown := status(it)) != f"refused: an image would be: {LATE} is not as it was at boot":
        raise BrokenError("promises-broken", f"the next image would be refused, and it is {shown}")


def test_disk_that_appears_later_is_prepared() -> None:
    """And as the loader has not described it, nothing is promised, also when the kernel's list has
    no such function any more."""
    with machine("late-disk") as it:
        assert status(it) == "armed"
        check_disk_of_a_rescan_is_prepared(it)
        check_plugged_function_is_noticed(it)
        check_disk_bound_again_is_prepared(it)
        it.machine.run_in_guest(f"echo 1 > /sys/bus/pci/devices/{LATE}/remove")
        check_plugged_function_is_noticed(it)
        assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.in_turn) if way != "bound" else way for way in AGAIN],
)
def test_device_that_was_there_again_is_on_the_fast_path(way: str) -> None:
    with machine("again", devices=(*DEVICES, "e1000e,addr=9")) as it:
        for _ in range(2):
            AGAIN[way](it)
            wait_mode(it, "fast")
            check_gives_numbers(it)
            assert "not restarted after Go" not in it.machine.console.text()
        assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
def test_cut_before_the_list_is_new_is_survived() -> None:
    """By stop=dpm: a Stop begins as soon as the driver is bound. After it, drivers have other
    interrupts, so the list is made again; and it was no Stop that had to keep the bound."""
    with machine("at-once", hold_up=True) as it:
        leave_one(it)
        bind_again(it, f"echo now >{SYSFS}/stop")
        assert it.machine.wait_off(PREPARED_LIMIT_S * 6) is MachineState.STOPPED
        assert stops_by(it) == "DPM"
        it.resume()
        check_still_gives_numbers(it)
        wait_mode(it, "fast")
        assert status(it) == "armed"
        check_gives_numbers(it)
        assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
def test_without_the_driver_in_its_way_the_machine_is_on_the_fast_path() -> None:
    """An rtl8139, whose driver has no recovery, while there is another network device."""
    with booted_bed("blocked", devices=(*DEVICES, "rtl8139,addr=7")) as it:
        blocked = f"dpm: because of {BLOCKING}"
        assert stop_mode(it) == blocked
        driver = "/sys/bus/pci/drivers/8139cp"
        it.machine.run_in_guest(f"echo {BLOCKING} > {driver}/unbind")
        wait_mode(it, "fast")
        check_gives_numbers(it)
        it.machine.run_in_guest(f"echo {BLOCKING} > {driver}/bind")
        wait_mode(it, blocked)
        said = f"using stop=dpm because of {BLOCKING}"
        assert it.machine.console.text().count(said) == 1  # since Go
        it.machine.guest.close()
        assert it.machine.cut().stopped
        assert stops_by(it) == "DPM"
        it.resume()
        check_still_gives_numbers(it)
        assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
def test_portable_path_that_a_user_has_chosen_stays() -> None:
    with machine("chosen") as it:
        for words in ("fast", "sng", ""):
            wrong = it.machine.run_in_guest(f"echo '{words}' >{SYSFS}/stop_mode", check=False)
            assert not wrong.ok
        it.machine.run_in_guest(f"echo dpm >{SYSFS}/stop_mode")
        find_again(it)
        time.sleep(LISTED_S)
        assert stop_mode(it) == "dpm: because of an administrator"


@pytest.mark.in_turn
@pytest.mark.parametrize("bug", ["forget-rebind", "keep-old-list"])
def test_old_list_is_found(bug: str) -> None:
    """The check passes in the same machine without the bug, before."""
    with machine("old-list", mutants=True) as it:
        leave_one_and_bind_again(it)
        wait_mode(it, "fast")
        check_gives_numbers(it)
        leave_one(it)
        plant(it.machine, bug)
        bind_again(it)
        time.sleep(LISTED_S)
        assert stop_mode(it) == "fast"
        with must_be_found(bug):
            check_gives_numbers(it)


@pytest.mark.in_turn
def test_plugged_function_that_is_forgotten_is_found() -> None:
    """The check passes in the same machine without the bug, after."""
    with machine("late-armed", mutants=True) as it:
        plant(it.machine, "forget-plugged")
        check_disk_of_a_rescan_is_prepared(it)
        with must_be_found("forget-plugged"):
            check_plugged_function_is_noticed(it)
        plant(it.machine, NONE)
        it.machine.run_in_guest("echo 1 > /sys/bus/pci/rescan")
        check_disk_bound_again_is_prepared(it)
        check_plugged_function_is_noticed(it)


def check_stops_by_the_other_path(it: Bed) -> None:
    """Inner check: the fast path is left while CPUs gather for it."""
    it.machine.guest.close()
    assert it.machine.cut().stopped
    if (way := stops_by(it)) != "DPM":
        raise BrokenError("does-not-continue", f"it stops by {way}, which is not the right path")


@pytest.mark.in_turn
def test_stop_whose_path_is_not_the_right_one_any_more_begins_again() -> None:
    with machine("left", mutants=True) as it:
        plant(it.machine, "hold-while-gathering")
        check_stops_by_the_other_path(it)
        it.resume()
        check_still_gives_numbers(it)
        wait_mode(it, "fast")
        plant(it.machine, "hold-while-gathering+hold-ignored")
        with must_be_found("hold-ignored"):
            check_stops_by_the_other_path(it)


@pytest.mark.in_turn
def test_disk_that_is_forgotten_is_found() -> None:
    """Each check passes in the same machine without the bug."""
    with machine("late-bug", mutants=True) as it:
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

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 10): a disk that loses its write cache with the power loses no data.

Method: a machine whose disk loses in each cut all that no flush covered. Through the cuts a program
writes pages, which the kernel then believes clean, SQLite transactions and small files; at the end
the page cache is dropped, everything is read back from the disk, and e2fsck finds nothing. The
negative proofs disable the policy: the cache is switched on again, or left on by Go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.machine.config import DiskModel
from lab.machine.fsck import damage
from lab.setup.products import Kernel, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config, with_log
from lab.verdict import BrokenError
from tests.support import disk_load
from tests.support.claims import ARCH, BOOT_LIMIT_S, MUTANTS, machine_name, warnings
from tests.support.proofs import must_be_found

SYSFS = "/sys/kernel/remanence/disks"
LOAD = Path(disk_load.__file__)
FOLDER = "/root/load"
ROUNDS = 20  # between two cuts, at least
ROUND_LIMIT_S = 90.0
OFF_LIMIT_S = 120.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@contextmanager
def loaded(
    purpose: str,
    stop: str,
    mutant: str | None = None,
    disk: DiskModel = "virtio-blk",
    log_mib: int | None = None,
) -> Iterator[Machine]:
    """Run a machine with a volatile disk cache and the load; with a log of *log_mib*, if given.

    With a *mutant* its kernel is built with planted bugs; "" chooses none of them. That for SATA
    always is.
    """
    kernel, words = None, ""
    if mutant is not None:
        words = f"remanence.mutant={mutant}"
        kernel = need(Kernel(MUTANTS)).bz_image
    if disk == "ahci":
        kernel = need(Kernel("devices")).bz_image
    config = make_config(machine_name(purpose), stop_mode=stop, kernel=kernel, isa=ARCH)
    config = replace(config, disk=disk, disk_cache="volatile")
    if log_mib is not None:
        config = with_log(config, log_mib)
    config = replace(config, cmdline_extra=f"{config.cmdline_extra} {words}".strip())
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        machine.guest.put(LOAD, "/root/disk_load.py")
        yield machine


def policy(machine: Machine) -> str:
    lines = machine.run_in_guest(f"cat {SYSFS}").stdout.splitlines()
    disk = {"virtio-blk": "vda", "nvme": "nvme0n1", "ahci": "sda"}[machine.config.disk]
    return next(line.split()[1] for line in lines if line.startswith(f"{disk} "))


def begin(machine: Machine, what: str = "") -> None:
    machine.run_in_guest(f"rm -f {FOLDER}/stop /run/disk-load /run/verdict")  # of an earlier load
    machine.run_in_guest(
        f"setsid python3 /root/disk_load.py {FOLDER} {what} > /run/verdict 2>&1 < /dev/null &"
    )


def work_on(machine: Machine) -> None:
    """Wait for ROUNDS more rounds of the load."""
    shown = "cat /run/disk-load 2>/dev/null || echo 0"
    wanted = int(machine.run_in_guest(shown).stdout) + ROUNDS
    end_s = time.monotonic() + ROUND_LIMIT_S
    while int(machine.run_in_guest(shown).stdout) < wanted:
        assert time.monotonic() < end_s, "the load has stopped"
        time.sleep(0.2)


def verdict(machine: Machine) -> str:
    machine.run_in_guest(f"touch {FOLDER}/stop")
    end_s = time.monotonic() + ROUND_LIMIT_S
    while time.monotonic() < end_s:
        output = machine.run_in_guest("cat /run/verdict").stdout
        if output.startswith(("OK ", "TORN ")):
            return output
        time.sleep(0.2)
    return "TORN: the load printed nothing"


def damage_after_power_off(machine: Machine) -> str:
    """What e2fsck finds on the media after the guest has switched its power off."""
    later = "setsid sh -c 'sleep 1; echo o > /proc/sysrq-trigger' > /dev/null 2>&1 < /dev/null &"
    machine.run_in_guest(f"sync; {later}")
    machine.guest.close()  # a connection would not notice the end
    machine.wait_off(OFF_LIMIT_S)
    return damage(machine.files.disk)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("stop", "disk"),
    [
        ("fast", "virtio-blk"),
        ("dpm", "virtio-blk"),
        ("fast", "nvme"),
        pytest.param("dpm", "nvme", marks=pytest.mark.soak),
        pytest.param("fast", "ahci", marks=pytest.mark.soak),
        pytest.param("dpm", "ahci", marks=pytest.mark.soak),
    ],
)
def test_volatile_cache_loses_no_data(stop: str, disk: DiskModel) -> None:
    with loaded(f"disk-{stop}-{disk}", stop, disk=disk) as machine:
        assert policy(machine) == "write-through"
        begin(machine)
        for _ in range(3):
            work_on(machine)
            cut_and_resume(machine)
            assert machine.disk_settled is not None
            assert machine.disk_settled.writes > 0
            assert policy(machine) == "write-through"
        work_on(machine)
        output = verdict(machine)
        assert output.startswith("OK "), output
        assert warnings(machine) == []
        assert damage_after_power_off(machine) == ""


def check_nothing_is_torn(machine: Machine, cuts: int) -> None:
    """Inner check of the negative proofs: pages only, as any flush of others would cover them."""
    begin(machine, "pages")
    for _ in range(cuts):
        work_on(machine)
        cut_and_resume(machine)
    output = verdict(machine)
    if not output.startswith("OK "):
        raise BrokenError("torn", output)


def test_with_the_policy_nothing_is_torn() -> None:
    """The control of the negative proof below, on the same kernel."""
    with loaded("disk-pages", "fast", mutant="") as machine:
        check_nothing_is_torn(machine, cuts=2)


@pytest.mark.in_turn
def test_with_the_cache_switched_on_again_data_is_torn() -> None:
    with loaded("disk-open", "fast") as machine:
        machine.run_in_guest("sync; echo write back > /sys/block/vda/cache_type")
        assert policy(machine) == "open"
        with pytest.raises(BrokenError, match="TORN"):
            check_nothing_is_torn(machine, cuts=1)
        assert machine.disk_settled is not None
        assert machine.disk_settled.lost_bytes > 0


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "disk",
    ["virtio-blk", *(pytest.param(disk, marks=pytest.mark.soak) for disk in ("nvme", "ahci"))],
)
def test_cache_that_go_leaves_on_is_torn_by_the_next_cut(disk: DiskModel) -> None:
    with (
        loaded("disk-forget", "fast", mutant="forget-write-through", disk=disk) as machine,
        must_be_found("forget-write-through"),
    ):
        check_nothing_is_torn(machine, cuts=2)


@pytest.mark.soak
@pytest.mark.parametrize(("disk", "name"), [("nvme", "nvme0n1"), ("ahci", "sda")])
def test_disk_that_its_driver_prepares_has_one_policy(disk: DiskModel, name: str) -> None:
    with loaded("disk-one", "fast", disk=disk) as machine:
        assert policy(machine) == "write-through"
        for words in (f"{name} protected", f"{name} log", f"{name} open"):
            assert machine.run_in_guest(f"echo {words} > {SYSFS}", check=False).returncode != 0
        machine.run_in_guest(f"echo {name} write-through > {SYSFS}")
        assert policy(machine) == "write-through"


@pytest.mark.soak
def test_who_switches_the_cache_of_a_sata_disk_on_loses_nothing() -> None:
    """libata hears of it, and configures the disk again."""
    with loaded("disk-on", "fast", disk="ahci") as machine:
        machine.run_in_guest("echo write back > /sys/class/scsi_disk/*/cache_type")
        check_nothing_is_torn(machine, cuts=2)


def test_only_a_declared_disk_can_be_protected() -> None:
    with loaded("disk-declared", "fast") as machine:
        refused = machine.run_in_guest(f"echo vda protected > {SYSFS}", check=False)
        assert refused.returncode != 0
        assert "not permitted" in refused.stderr
        for words in ("vdz protected", "vda log", "vda", ""):
            assert machine.run_in_guest(f"echo {words} > {SYSFS}", check=False).returncode != 0
        assert policy(machine) == "write-through"

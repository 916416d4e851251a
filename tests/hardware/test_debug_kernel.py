# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: Stop and Go break none of the kernel's own rules: accesses (KASAN), arithmetic (UBSAN),
the order and context of locks (lockdep), memory that nothing points to (kmemleak).

Method: the kernel of kernel/config/debug.config is cut several times under load, on both paths; its
console and kmemleak's list have no report. The negative proof: a bug planted for each checker, in
the thread that ends Go, is reported. Time is that of counted instructions: this kernel is so slow
that on a busy host it would measure its clock wrong, and its watchdogs would bark at the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lab.campaign.record import Patience
from lab.machine import Machine
from lab.machine.config import DiskModel, NicModel
from lab.setup.products import Kernel, need
from lab.testbed.machines import make_config, with_log
from lab.testbed.no_stop import consoles
from lab.testbed.planted import plant
from lab.verdict import DETECTORS
from tests.hardware.test_disk_cache import policy
from tests.hardware.test_disk_logged import LOG_MIB, TABLE, Status
from tests.support.claims import cut_with, machine_name, warnings
from tests.support.proofs import planted

CUTS = 3
CPUS = 2
BOOT_LIMIT_S = 1200.0  # KASAN under emulation, on a busy host
REPORT_LIMIT_S = 600.0
KMEMLEAK = "/sys/kernel/debug/kmemleak"
SUSPECT_S = 6  # kmemleak suspects what is older than 5 s
LOAD = "while :; do cp /usr/bin/python3* /tmp/; sync; rm /tmp/python3*; done"
# Lockdep comes first: a report of KASAN taints the kernel, which switches lockdep off.
ON_CONSOLE = ("watch-lockdep", "watch-kasan", "watch-ubsan", "watch-sleep")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]


@contextmanager
def debugged(
    stop: str,
    disk: DiskModel = "virtio-blk",
    nic: NicModel = "virtio-net",
    log_mib: int | None = None,
) -> Iterator[Machine]:
    kernel = need(Kernel("debug")).bz_image
    name = machine_name(f"debug-{stop}-{disk}{'-log' if log_mib else ''}")
    config = make_config(name, CPUS, stop, kernel)
    config = replace(config, icount=True, disk=disk, nic=nic)
    if log_mib is not None:
        config = with_log(config, log_mib)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        machine.run_in_guest(
            "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug"
        )
        yield machine


@pytest.fixture(scope="module")
def fast() -> Iterator[Machine]:
    with debugged("fast") as machine:
        yield machine


def cut_and_resume(machine: Machine) -> None:
    cut_with(machine, Patience(), BOOT_LIMIT_S)


def leaks(machine: Machine) -> str:
    """Scan twice: the first scan does not report what was allocated just before."""
    for _ in range(2):
        machine.run_in_guest(f"echo scan > {KMEMLEAK}", limit_s=REPORT_LIMIT_S)
        machine.run_in_guest(f"sleep {SUSPECT_S}", limit_s=REPORT_LIMIT_S)
    return machine.run_in_guest(f"cat {KMEMLEAK}", limit_s=REPORT_LIMIT_S).stdout


def check_no_report(machine: Machine) -> None:
    """Inner check: cut under load; expect no report."""
    machine.run_in_guest(
        f"setsid sh -c '{LOAD}' > /dev/null 2>&1 < /dev/null & echo $! > /run/load"
    )
    for _ in range(CUTS):
        cut_and_resume(machine)
    machine.run_in_guest("pkill -KILL -s $(cat /run/load)", limit_s=REPORT_LIMIT_S)
    stats = machine.run_in_guest("cat /proc/lockdep_stats").stdout
    assert re.search(r"debug_locks:\s+1", stats), "lockdep has switched itself off"
    assert "rem_" not in leaks(machine)
    assert warnings(machine) == []


def test_debug_kernel_reports_nothing(fast: Machine) -> None:
    check_no_report(fast)


def test_debug_kernel_reports_nothing_on_the_portable_path() -> None:
    with debugged("dpm") as machine:
        check_no_report(machine)


def test_debug_kernel_reports_nothing_with_restarted_devices() -> None:
    with debugged("fast", "nvme", "e1000e") as machine:
        check_no_report(machine)


def test_debug_kernel_reports_nothing_with_a_logged_disk() -> None:
    with debugged("fast", log_mib=LOG_MIB) as machine:
        machine.guest.put(TABLE, "/root/dm_table.py")
        assert policy(machine) == "log"
        check_no_report(machine)
        assert Status.of(machine).replays >= CUTS


def report_of(mutant: str) -> str:
    """What the detector prints that has to find this bug."""
    (verdict,) = planted()[mutant].verdicts
    return DETECTORS[verdict]


def test_planted_leak_is_reported(fast: Machine) -> None:
    plant(fast, "watch-leak")
    cut_and_resume(fast)
    assert re.search(report_of("watch-leak"), leaks(fast))


@pytest.mark.parametrize("mutant", ON_CONSOLE)
def test_planted_bug_is_reported_by_its_detector(fast: Machine, mutant: str) -> None:
    report = report_of(mutant)
    assert not re.search(report, consoles(fast))
    plant(fast, mutant)
    cut_and_resume(fast)
    assert fast.console is not None
    fast.console.expect(report, REPORT_LIMIT_S)
    assert any(re.search(report, line) for line in warnings(fast)), (
        "a test that reads the console would not see it"
    )

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: devices without support in Stop continue after it. An NVMe disk and an e1000e restart by
their drivers' PCI error recovery, and so do an igb, an e1000, which has only an interrupt line and
32 bits of address, and a SATA disk, whose controller gets that recovery by our patch. An rtl8139,
whose driver has no recovery, keeps the machine on stop=dpm, which is logged.

Method: the machine's only network device, or its only disk, is of that kind, so that every program,
every acknowledged number and the test's own connections use it. Negative proof: a kernel that does
not restart devices after Go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.addresses import HOST_ADDRESS
from lab.clients.process import ClientProcess
from lab.machine.console import kernel_warnings
from lab.testbed.guest_job import GuestJob
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, Writer, booted_bed

CUTS = 2
ACKED_BETWEEN = 5
GO_LIMIT_S = 120.0
# With a bug and without: a machine without its disk costs the test as much.
HANG_LIMIT_S = 20.0
SYSFS = "/sys/kernel/remanence"
KERNEL = "devices-mutants"

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@contextmanager
def traffic(it: Bed) -> Iterator[ClientProcess]:
    """Traffic both ways over one connection, and records with fsync; both are checked after it."""
    with ClientProcess(it.machine.network.exec_prefix(), "peer", host=HOST_ADDRESS) as peer:
        address = f"{HOST_ADDRESS}:{peer.started['ports'][0]}"
        jobs = [
            GuestJob(it.machine, "rem-tcp", "--peer", address),
            GuestJob(it.machine, "rem-fsync", "--mode", "direct"),
        ]
        yield peer
        for job in jobs:
            verdict = job.finish()
            if verdict.startswith("FAIL rem-fsync record"):
                raise BrokenError("promises-broken", verdict)
            assert verdict.startswith("OK "), verdict
        assert not peer.ask("status")["failures"]


def wait_frames(peer: ClientProcess, limit_s: float) -> None:
    before, end_s = peer.ask("status")["frames_received"], time.monotonic() + limit_s
    while peer.ask("status")["frames_received"] <= before:
        assert time.monotonic() < end_s, "the peer gets nothing any more"
        time.sleep(0.05)


def check_lives_through_cuts(it: Bed, cuts: int = CUTS, limit_s: float = GO_LIMIT_S) -> None:
    """Inner check: acknowledged records are there, the same connections continue both ways."""
    with traffic(it) as peer:
        writer = Writer(it.machine)
        try:
            writer.wait(ACKED_BETWEEN)
            for _ in range(cuts):
                assert it.machine.cut().stopped, "no Stop within the hold-up"
                it.resume(limit_s)
                writer.wait(ACKED_BETWEEN, limit_s)
                wait_frames(peer, limit_s)
        finally:
            writer.close()
    writer.check(it.machine)
    assert it.kept()
    assert kernel_warnings(it.machine.console.text()) == []


def what_stops(it: Bed) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/stop_mode").stdout.strip()


def driver_of_eth0(it: Bed) -> str:
    shown = it.machine.run_in_guest("readlink /sys/class/net/eth0/device/driver").stdout
    return shown.strip().rpartition("/")[2]


@pytest.mark.in_turn
def test_nvme_and_e1000e_are_restarted_by_their_drivers() -> None:
    with booted_bed("drivers", disk="nvme", nic="e1000e") as it:
        assert what_stops(it) == "fast"
        assert driver_of_eth0(it) == "e1000e"
        assert it.machine.run_in_guest("ls /sys/block | grep -v loop").stdout == "nvme0n1\n"
        check_lives_through_cuts(it)


@pytest.mark.soak
def test_e1000_with_its_interrupt_line_and_32_bits_is_so_too() -> None:
    with booted_bed("e1000", nic="e1000") as it:
        assert what_stops(it) == "fast"
        assert driver_of_eth0(it) == "e1000"
        check_lives_through_cuts(it)


@pytest.mark.soak
def test_igb_is_so_too() -> None:
    with booted_bed("igb", variant=KERNEL, nic="igb") as it:
        assert what_stops(it) == "fast"
        assert driver_of_eth0(it) == "igb"
        check_lives_through_cuts(it)


@pytest.mark.soak
def test_sata_disk_is_restarted_by_its_driver() -> None:
    with booted_bed("sata", variant=KERNEL, disk="ahci") as it:
        assert what_stops(it) == "fast"
        assert it.machine.run_in_guest("ls /sys/block | grep -v loop").stdout == "sda\n"
        check_lives_through_cuts(it, 10)


@pytest.mark.soak
def test_commands_of_a_sata_disk_that_are_taken_for_completed_are_found() -> None:
    """After Go the registers of its controller show none of those that were in flight."""
    with booted_bed("taken", variant=KERNEL, disk="ahci") as it:
        plant(it.machine, "ahci-completes-all")
        with must_be_found("ahci-completes-all"):
            check_lives_through_cuts(it, 16)


@pytest.mark.soak
def test_sata_disk_that_is_not_restarted_is_found() -> None:
    with booted_bed("no-sata", variant=KERNEL, disk="ahci") as it:
        check_lives_through_cuts(it, 1, HANG_LIMIT_S)
        plant(it.machine, "skip-device")
        with must_be_found("skip-device"):
            check_lives_through_cuts(it, 1, HANG_LIMIT_S)


@pytest.mark.soak
def test_device_without_recovery_keeps_the_machine_on_the_portable_path() -> None:
    with booted_bed("rtl8139", nic="rtl8139") as it:
        assert driver_of_eth0(it) == "8139cp"
        assert what_stops(it) == "dpm: because of 0000:00:02.0"
        assert "using stop=dpm because of 0000:00:02.0" in it.machine.console.text()
        check_lives_through_cuts(it, 1)


@pytest.mark.in_turn
def test_devices_that_are_not_restarted_are_found() -> None:
    with booted_bed("no-restart", disk="nvme", nic="e1000e", mutants=True) as it:
        check_lives_through_cuts(it, 1, HANG_LIMIT_S)
        plant(it.machine, "skip-device")
        with must_be_found("skip-device"):
            check_lives_through_cuts(it, 1, HANG_LIMIT_S)

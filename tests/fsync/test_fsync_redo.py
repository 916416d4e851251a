# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: where a disk's flushes end in memory (`remanence.persist_redo=`), what a program was told
to be safe is there after a loss of power, a panic, a refused image and a Stop that fails: first
fsyncs of new files, names, removals, direct writes; and the file system is whole.

Method: files are made, renamed and removed on ext4, XFS and Btrfs, on a disk that loses its cache
with the power. Without the redo of the next boot they are not there, or the test would show
nothing.
Negative proofs, kernels that break one rule each: tests/fsync/test_fsync_redo_planted.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed import fsync_guest as guest
from lab.testbed import redo_guest as redo
from lab.testbed.cycle import cut_and_resume
from lab.testbed.fsx import (
    BTRFS,
    EXT4,
    EXT4_FAST,
    FOLDER,
    XFS,
    FileSystem,
    ext4_config,
    fsx_config,
)
from lab.testbed.fsync_guest import CRASHES
from lab.testbed.machines import with_log
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.promise import end_promise
from lab.verdict import BrokenError
from tests.hardware.test_disk_cache import damage_after_power_off
from tests.support.claims import machine_name

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

IN_TURN = pytest.mark.in_turn
KINDS = {"ext4": EXT4, "ext4-fast": EXT4_FAST, "xfs": XFS, "btrfs": BTRFS}
OTHERS = (XFS, BTRFS)
STEPS = 120
FEW = 30
WITNESS_STEPS = 100


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with redo.redo_guest(machine_name("redo")) as made:
        yield made


@pytest.fixture(scope="module")
def machine_with_others() -> Iterator[Machine]:
    with redo.redo_guest(machine_name("redo-others"), made=fsx_config) as made:
        yield made


def crashes() -> Iterator[object]:
    """A loss of power on ext4; the others take turns. XFS and Btrfs, whose fsync is always its own
    and ends in flushes, are for soak, as their kernel is."""
    for name, kind in KINDS.items():
        for way in CRASHES:
            marks = [pytest.mark.soak if kind in OTHERS else IN_TURN]
            if kind is EXT4 and way == "power":
                marks = []
            yield pytest.param(kind, way, marks=marks, id=f"{name}-{way}")


@pytest.mark.parametrize(("kind", "way"), [*crashes()])
def test_new_files_are_there_after_a_crash(
    request: pytest.FixtureRequest, kind: FileSystem, way: str
) -> None:
    machine = request.getfixturevalue("machine_with_others" if kind in OTHERS else "machine")
    redo.begin(machine, kind)
    assert redo.ring(machine).state == "memory"
    with guest.witness(machine, f"{FOLDER}/witness", seed=way) as seen:
        files = redo.new_files(machine, f"{FOLDER}/new")
        try:
            files.wait(STEPS)
            seen.wait(WITNESS_STEPS)
            before = redo.ring(machine)
            files.wait(STEPS // 4)
            after = redo.ring(machine)
            assert after.ended - before.ended >= STEPS // 4
            CRASHES[way](machine)
        finally:
            files.close()
    if way not in ("panic", "watchdog"):  # the disk kept its power
        assert machine.disk_settled is not None
        assert machine.disk_settled.lost_bytes > 0, "the disk has lost nothing"
    written, damaged = redo.redone(machine)
    assert written > 0 and damaged == 0
    redo.found_again(machine, kind)
    redo.check_files(machine, f"{FOLDER}/new", files.steps)
    assert seen.check() == []
    assert not kernel_complaints(machine)
    redo.check_disk(machine, kind)


def test_they_are_lost_with_the_ring(machine: Machine) -> None:
    redo.begin(machine, EXT4)
    before = redo.ring(machine)
    # Fewer than after which the log flushes, being half full.
    redo.make_files(machine, f"{FOLDER}/new", FEW)
    after = redo.ring(machine)
    assert after.state == "memory" and after.ended - before.ended >= FEW, (before, after)
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    guest.boot_without_registry(machine, redo.REGISTRY_MIB << 20)
    assert redo.redone(machine) == (0, 0)
    redo.found_again(machine, EXT4)
    with pytest.raises(BrokenError):
        redo.check_files(machine, f"{FOLDER}/new", FEW)
    redo.check_disk(machine, EXT4)


def test_over_a_stop_the_ring_goes_on(machine: Machine) -> None:
    redo.begin(machine, EXT4)
    files = redo.new_files(machine, f"{FOLDER}/new")
    try:
        for _ in range(2):
            files.wait(STEPS // 2)
            cut_and_resume(machine)
        files.wait(STEPS // 2)
        assert redo.ring(machine).state == "memory"
        guest.lose_power(machine)
    finally:
        files.close()
    redo.found_again(machine, EXT4)
    redo.check_files(machine, f"{FOLDER}/new", files.steps)
    redo.check_disk(machine, EXT4)


def lose_promise(machine: Machine) -> None:
    end_promise(machine)
    assert guest.state(machine) == "waiting"


def choose_disk(machine: Machine) -> None:
    sh(machine, f"echo disk >{guest.SYSFS}/state")
    assert guest.state(machine) == "disk"


def exclude(machine: Machine) -> None:
    device = sh(machine, "cat /sys/block/dm-0/dev").stdout.strip()
    sh(machine, f"echo +{device} >{guest.SYSFS}/excluded")


@pytest.mark.parametrize(
    "leave", [choose_disk, *(pytest.param(one, marks=IN_TURN) for one in (lose_promise, exclude))]
)
def test_when_it_ceases_all_is_on_the_disk(machine: Machine, leave: object) -> None:
    assert callable(leave)
    redo.begin(machine, EXT4)
    files = redo.new_files(machine, f"{FOLDER}/new")
    try:
        files.wait(STEPS // 2)
        leave(machine)
        assert redo.ring(machine).state == "disk"
        ended = redo.ring(machine).ended
        files.wait(STEPS // 8)  # from now on each waits for the disk
        assert redo.ring(machine).ended == ended
        machine.cut(UNANNOUNCED)
    finally:
        files.close()
    machine.guest.close()
    guest.boot_without_registry(machine, redo.REGISTRY_MIB << 20)
    redo.found_again(machine, EXT4)
    redo.check_files(machine, f"{FOLDER}/new", files.steps)
    redo.check_disk(machine, EXT4)


@IN_TURN
def test_ring_that_is_full_goes_on(machine: Machine) -> None:
    """More than the ring holds, by direct writes, and again to the same place."""
    redo.begin(machine, EXT4)
    write = "dd if=/dev/urandom of={}/big bs=256k count=100 oflag=direct,dsync conv=notrunc"
    sh(machine, f"for n in 1 2 3; do {write.format(FOLDER)} 2>/dev/null; done")
    status = redo.ring(machine)
    assert status.head > redo.LOG_MIB * 256, "the ring was never emptied"
    # The flushes of a ring that was half full have ended: something is left for a redo.
    sh(machine, f"sleep 2; echo small >{FOLDER}/small; sync {FOLDER}/small")
    wanted = sh(machine, f"cat {FOLDER}/big {FOLDER}/small | sha256sum").stdout
    guest.lose_power(machine)
    written, damaged = redo.redone(machine)
    assert 0 < written <= redo.LOG_MIB * 256 and damaged == 0
    redo.found_again(machine, EXT4)
    assert sh(machine, f"cat {FOLDER}/big {FOLDER}/small | sha256sum").stdout == wanted
    redo.check_disk(machine, EXT4)


def test_disk_without_a_log_has_all_at_the_next_boot(machine: Machine) -> None:
    """Nobody makes the table: the redo has come before, and leaves the disk to anybody."""
    redo.begin(machine, EXT4)
    redo.make_files(machine, f"{FOLDER}/new", STEPS)
    guest.lose_power(machine)
    assert [line[1] for line in redo.rings(machine)] == []
    sh(machine, f"mount {redo.DISK} {FOLDER}")
    assert not guest.replay(machine)["failed"]
    redo.check_files(machine, f"{FOLDER}/new", STEPS)
    sh(machine, f"umount {FOLDER} && e2fsck -fn {redo.DISK}")


def test_damaged_ring_keeps_its_disk_until_it_is_given_up(machine: Machine) -> None:
    redo.begin(machine, EXT4)
    redo.make_files(machine, f"{FOLDER}/new", STEPS)
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    redo.damage_ring(machine)
    machine.boot()
    guest.wait_up(machine)
    (number, state, _, identity), *_ = redo.rings(machine)
    assert (state, identity) == ("waits", "virtio rem-root")
    assert "busy" in sh(machine, f"mount {redo.DISK} {FOLDER} 2>&1", check=False).stdout
    guest.panic(machine)  # it is as it was
    assert redo.rings(machine)[0][1] == "waits"
    sh(machine, f"echo {number} give-up >{guest.SYSFS}/redo")
    assert redo.rings(machine) == []
    redo.log_on(machine)
    redo.log_off(machine)


@IN_TURN
def test_root_file_system_on_a_log_has_all() -> None:
    """Its table is made by the kernel's command line: the redo has come before, and then rem-replay
    finds the registered pages."""
    config = with_log(ext4_config(machine_name("redo-root")), redo.LOG_MIB)
    words = f"{redo.REDO} {config.cmdline_extra}"
    with guest.machine_of(config, words, registry=redo.REGISTRY) as machine:
        machine.boot()
        guest.wait_up(machine)
        guest.install(machine)
        machine.guest.put(redo.PROGRAM_SOURCE, redo.PROGRAM)
        sh(machine, "sync")
        with guest.witness(machine, "/root/witness", seed="root") as seen:
            files = redo.new_files(machine, "/root/new")
            try:
                files.wait(STEPS)
                seen.wait(WITNESS_STEPS)
                guest.lose_power(machine)
            finally:
                files.close()
        written, damaged = redo.redone(machine)
        assert written > 0 and damaged == 0
        assert not guest.replay(machine)["failed"]
        redo.check_files(machine, "/root/new", files.steps)
        assert seen.check() == []
        assert not kernel_complaints(machine)
        assert damage_after_power_off(machine) == ""


@IN_TURN
def test_nvme_disk_may_have_a_log_that_keeps_its_cache_on() -> None:
    """Its driver keeps the cache off; a log has it on, also after Go has started the controller."""
    with redo.redo_guest(machine_name("redo-nvme"), disk="nvme") as machine:
        policies = "/sys/kernel/remanence/disks"
        assert "nvme0n1 write-through" in sh(machine, f"cat {policies}").stdout
        redo.begin(machine, EXT4)
        assert "nvme0n1 log" in sh(machine, f"cat {policies}").stdout
        files = redo.new_files(machine, f"{FOLDER}/new")
        try:
            files.wait(STEPS // 2)
            cut_and_resume(machine)
            files.wait(STEPS // 2)
            before = redo.ring(machine)
            files.wait(STEPS // 4)
            assert redo.ring(machine).ended - before.ended >= STEPS // 4
            guest.lose_power(machine)
        finally:
            files.close()
        assert machine.disk_settled is not None and machine.disk_settled.lost_bytes > 0
        written, damaged = redo.redone(machine)
        assert written > 0 and damaged == 0
        redo.found_again(machine, EXT4)
        redo.check_files(machine, f"{FOLDER}/new", files.steps)
        redo.check_disk(machine, EXT4)
        assert "nvme0n1 write-through" in sh(machine, f"cat {policies}").stdout
        assert not kernel_complaints(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariant 10): a disk with a log keeps its write cache on, and a cut loses no data.

Method: the machine, the load and the checks of test_disk_cache.py, with the root disk under the
device mapper's target `remanence-log` from boot on. What the disk lost shows that its cache was on.
The negative proof: a kernel that does not replay the log. For a cut during a replay, QEMU writes to
the disk so slowly that the replay cannot have ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.testbed import dm_table
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config
from tests.hardware.test_disk_cache import (
    SYSFS,
    begin,
    check_nothing_is_torn,
    damage_after_power_off,
    loaded,
    policy,
    verdict,
    work_on,
)
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, machine_name, warnings
from tests.support.proofs import must_be_found

TABLE = Path(dm_table.__file__)
LOG_MIB = 64
LIMIT_S = 120.0  # of what the guest does on its own
FILE_MIB = 16
# 16 MiB in requests of 256 KiB: a replay takes half a minute and not less.
SLOW_WRITES_PER_S = 2
LOOP_SECTORS = 32 << 11
# More dirty data than the kernel holds back, past each of its own caches.
FILL = "dd if=/dev/urandom of={to} bs=1M count={mib} oflag=direct conv=notrunc,nocreat 2>/dev/null"

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Status:
    """The status of a log, as `dmsetup status` prints it."""

    used_bytes: int
    limit_bytes: int
    held: int
    replays: int
    replayed_bytes: int
    flushes: int
    ok: bool

    @staticmethod
    def of(machine: Machine, name: str = "root") -> Status:
        output = dm(machine, "status", name)
        match = re.fullmatch(
            r"used (\d+)/(\d+) held (\d+) replays (\d+) replayed (\d+) flushes (\d+) (ok|failed)",
            output,
        )
        assert match is not None, output
        used, limit, held, replays, replayed, flushes = map(int, match.groups()[:-1])
        return Status(used, limit, held, replays, replayed, flushes, match[7] == "ok")


def dm(machine: Machine, *words: str) -> str:
    quoted = " ".join(f"'{word}'" for word in words)
    return machine.run_in_guest(f"python3 /root/dm_table.py {quoted}").stdout.strip()


def refused(machine: Machine, *words: str) -> str:
    """Run a command that must fail; return the name of its errno."""
    quoted = " ".join(f"'{word}'" for word in words)
    done = machine.run_in_guest(f"python3 /root/dm_table.py {quoted}", check=False)
    assert done.returncode == 1, done
    return str(done.stderr).strip()


def wait_replays(machine: Machine, count: int) -> Status:
    """Wait for the replay, which Go starts and does not wait for."""
    end_s = time.monotonic() + LIMIT_S
    while (now := Status.of(machine)).replays < count:
        assert time.monotonic() < end_s, f"{now}: no replay {count}"
        time.sleep(0.2)
    assert now.ok
    return now


@contextmanager
def logged(
    purpose: str, stop: str = "fast", mutant: str | None = None, mib: int = LOG_MIB
) -> Iterator[Machine]:
    with loaded(purpose, stop, mutant=mutant, log_mib=mib) as machine:
        machine.guest.put(TABLE, "/root/dm_table.py")
        assert policy(machine) == "log"
        yield machine


def keep_from_flushing(machine: Machine) -> None:
    """Stop the file system's own flushes, which would bring to media what a cut is to lose.

    They are the journal's periodic commits (sync comes last, because a transaction keeps the
    interval that was set when it began), and the initialisation of inode tables, which takes
    minutes after the first mount.
    """
    machine.run_in_guest("mount -o remount,commit=3600,noinit_itable / && sync")


def fill_file(machine: Machine, mib: int) -> str:
    """Write data that no flush covers; return the checksum of the file."""
    machine.run_in_guest(f"dd if=/dev/zero of=/root/file bs=1M count={mib}")
    keep_from_flushing(machine)
    return file_after(machine, FILL.format(to="/root/file", mib=mib))


def file_after(machine: Machine, command: str = "true") -> str:
    return machine.run_in_guest(
        f"{command} && echo 3 > /proc/sys/vm/drop_caches && sha256sum /root/file"
    ).stdout


@pytest.mark.in_turn
def test_writes_lost_by_the_cache_are_repeated() -> None:
    with logged("log", "fast") as machine:
        begin(machine)
        lost_bytes = 0
        for cut in (1, 2):
            work_on(machine)
            cut_and_resume(machine)
            assert machine.disk_settled is not None
            lost_bytes += machine.disk_settled.lost_bytes
            wait_replays(machine, cut)
            assert policy(machine) == "log"
        work_on(machine)
        output = verdict(machine)
        assert output.startswith("OK "), output
        wanted = fill_file(machine, 1)
        cut_and_resume(machine)
        assert machine.disk_settled is not None
        assert machine.disk_settled.lost_bytes >= 1 << 20, "the cache was not on"
        lost_bytes += machine.disk_settled.lost_bytes
        assert wait_replays(machine, 3).replayed_bytes >= lost_bytes
        assert file_after(machine) == wanted
        assert warnings(machine) == []
        assert damage_after_power_off(machine) == ""


@pytest.mark.soak
@pytest.mark.parametrize("stop", ["fast", "dpm"])
def test_with_the_log_nothing_is_torn(stop: str) -> None:
    with logged(f"log-pages-{stop}", stop, mutant="") as machine:
        keep_from_flushing(machine)
        check_nothing_is_torn(machine, cuts=3)
        assert machine.disk_settled is not None
        assert machine.disk_settled.lost_bytes > 0
        assert warnings(machine) == []
        assert damage_after_power_off(machine) == ""


@pytest.mark.in_turn
def test_without_replay_of_the_log_data_is_torn() -> None:
    """The control on the same build is test_with_the_log_nothing_is_torn: a machine that has been
    through a cut has flushed more, and tears less."""
    with logged("log-forget", mutant="forget-log") as machine:
        keep_from_flushing(machine)
        with must_be_found("forget-log"):
            check_nothing_is_torn(machine, cuts=1)
        assert machine.disk_settled is not None
        assert machine.disk_settled.lost_bytes > 0


@pytest.mark.soak
@pytest.mark.parametrize("stop", ["fast", "dpm"])
def test_full_log_flushes_by_itself(stop: str) -> None:
    with logged(f"log-full-{stop}", stop, mib=1) as machine:
        before = Status.of(machine)
        fill_file(machine, FILE_MIB)
        after = Status.of(machine)
        assert after.flushes - before.flushes >= FILE_MIB - 1
        assert after.used_bytes <= after.limit_bytes == 1 << 20
        assert after.held == 0
        begin(machine)
        for cut in range(1, 4):
            work_on(machine)
            cut_and_resume(machine)
            wait_replays(machine, cut)
        output = verdict(machine)
        assert output.startswith("OK "), output
        assert warnings(machine) == []
        assert damage_after_power_off(machine) == ""


def qmp(machine: Machine, command: str, **arguments: Any) -> Any:
    assert machine.qemu is not None
    return machine.qemu.qmp.execute(command, **arguments)


def write_slowly(machine: Machine) -> None:
    """Throttle the disk of a machine that has not started yet."""
    disk = next(it["qdev"] for it in qmp(machine, "query-block") if it.get("qdev"))
    no_limit = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops", "iops_rd"), 0)
    qmp(machine, "block_set_io_throttle", id=disk, iops_wr=SLOW_WRITES_PER_S, **no_limit)


def written(machine: Machine) -> int:
    """Return the number of write requests since power on."""
    return sum(int(disk["stats"]["wr_operations"]) for disk in qmp(machine, "query-blockstats"))


@pytest.mark.soak
def test_replay_that_was_cut_starts_again() -> None:
    """Not with stop=dpm, which waits for tasks, which wait for the replay."""
    with logged("log-again") as machine:
        wanted = fill_file(machine, FILE_MIB)
        before = Status.of(machine)
        assert before.used_bytes >= FILE_MIB << 20
        machine.guest.close()
        assert machine.cut().stopped
        assert machine.disk_settled is not None
        assert machine.disk_settled.lost_bytes >= FILE_MIB << 20
        for _ in range(2):
            machine.resume(paused=True)
            write_slowly(machine)
            qmp(machine, "cont")
            end_s = time.monotonic() + GO_LIMIT_S
            while written(machine) == 0:
                assert time.monotonic() < end_s, "no replay began"
                time.sleep(0.05)
            assert machine.cut().stopped
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        after = wait_replays(machine, 1)
        assert after.replays == 1, "an interrupted replay was counted"
        assert after.replayed_bytes > before.used_bytes, "no replay was interrupted"
        assert file_after(machine) == wanted
        assert warnings(machine) == []
        assert damage_after_power_off(machine) == ""


@contextmanager
def with_loop(purpose: str) -> Iterator[Machine]:
    """A machine with a second disk, in its memory."""
    with loaded(purpose, "fast") as machine:
        machine.guest.put(TABLE, "/root/dm_table.py")
        machine.run_in_guest(f"truncate -s {LOOP_SECTORS * 512} /dev/shm/loop")
        machine.run_in_guest("losetup -P /dev/loop0 /dev/shm/loop && addpart /dev/loop0 1 64 1024")
        yield machine


@pytest.mark.soak
def test_device_that_cannot_have_a_log_is_refused_in_one_line() -> None:
    with with_loop("log-refused") as machine:
        for table, error, line in (
            ("/dev/vda 16", "EBUSY", "or it is in use (-EBUSY)"),
            ("/dev/nothing 16", "ENOENT", "no such disk"),
            ("/dev/loop0p1 16", "EINVAL", "not a whole disk (-EINVAL)"),
            ("/dev/loop0 0", "EINVAL", "a number of MiB, at least 1 (-EINVAL)"),
            ("/dev/loop0 -1", "EINVAL", "a number of MiB, at least 1 (-EINVAL)"),
            ("/dev/loop0 much", "EINVAL", "a number of MiB, at least 1 (-EINVAL)"),
            ("/dev/loop0 600", "EINVAL", "larger than half of main memory (-EINVAL)"),
            ("/dev/loop0", "EINVAL", "want a disk and the size"),
            ("/dev/loop0 16 fast", "EINVAL", "want a disk and the size"),
        ):
            machine.run_in_guest("dmesg -C")
            output = refused(machine, "create", "other", f"0 1024 remanence-log {table}")
            assert output == error, (table, output)
            lines = machine.run_in_guest("dmesg").stdout
            assert lines.count("remanence-log") == 1, lines
            assert line in lines
        assert policy(machine) == "write-through"
        path = dm(machine, "create", "one", f"0 {LOOP_SECTORS} remanence-log /dev/loop0 16")
        assert "loop0 log\n" in machine.run_in_guest(f"cat {SYSFS}").stdout
        table = f"0 {LOOP_SECTORS} remanence-log /dev/loop0 16"
        assert refused(machine, "create", "two", table) == "EBUSY"
        for policies in ("protected", "write-through", "open"):
            done = machine.run_in_guest(f"echo loop0 {policies} > {SYSFS}", check=False)
            assert "busy" in done.stderr
        machine.run_in_guest(f"echo loop0 log > {SYSFS}")
        machine.run_in_guest(FILL.format(to=path, mib=20))  # more than fits in the log
        assert Status.of(machine, "one").flushes > 0
        hashed = machine.run_in_guest(f"sha256sum < {path}").stdout
        dm(machine, "remove", "one")
        assert machine.run_in_guest("sha256sum < /dev/loop0").stdout == hashed
        assert "loop0 log\n" not in machine.run_in_guest(f"cat {SYSFS}").stdout


@pytest.mark.soak
def test_disk_that_fails_in_a_replay_gives_errors_and_no_old_data() -> None:
    with with_loop("log-fails") as machine:
        lower = dm(machine, "create", "lower", f"0 {LOOP_SECTORS} linear /dev/loop0 0")
        path = dm(machine, "create", "one", f"0 {LOOP_SECTORS} remanence-log {lower} 16")
        machine.run_in_guest(FILL.format(to=path, mib=4))
        assert Status.of(machine, "one").used_bytes >= 4 << 20
        dm(machine, "swap", "lower", f"0 {LOOP_SECTORS} error")
        cut_and_resume(machine)
        end_s = time.monotonic() + LIMIT_S
        while (now := Status.of(machine, "one")).ok:
            assert time.monotonic() < end_s, now
            time.sleep(0.2)
        console = machine.run_in_guest("dmesg").stdout
        assert console.count("to the disk failed, all I/O fails from now on") == 1
        dm(machine, "swap", "lower", f"0 {LOOP_SECTORS} linear /dev/loop0 0")
        read = f"dd if={path} of=/dev/null bs=4k count=1 iflag=direct"
        assert "Input/output error" in machine.run_in_guest(read, check=False).stderr


@pytest.mark.soak
def test_cache_is_on_while_there_is_a_log() -> None:
    config = make_config(machine_name("log-ends"), stop_mode="fast")
    config = replace(config, devices=("pcie-root-port,id=spare-port,bus=pcie.0",))
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot(paused=True)
        node = {"driver": "null-co", "node-name": "spare", "size": LOOP_SECTORS * 512}
        qmp(machine, "blockdev-add", **node, **{"read-zeroes": True})
        device = {"driver": "virtio-blk-pci", "drive": "spare", "bus": "spare-port"}
        iommu = {"disable-legacy": "on", "iommu_platform": True}
        qmp(machine, "device_add", **device, **iommu)
        qmp(machine, "cont")
        machine.wait_up(BOOT_LIMIT_S)
        machine.guest.put(TABLE, "/root/dm_table.py")

        def spare() -> tuple[str, str]:
            disks = machine.run_in_guest(f"cat {SYSFS}; cat /sys/block/vdb/cache_type").stdout
            return disks.split("vdb ", 1)[1].split()[0], disks.splitlines()[-1]

        assert spare() == ("write-through", "write through")
        dm(machine, "create", "one", f"0 {LOOP_SECTORS} remanence-log /dev/vdb 16")
        assert spare() == ("log", "write back")
        done = machine.run_in_guest(f"echo vdb write-through > {SYSFS}", check=False)
        assert "busy" in done.stderr
        assert spare() == ("log", "write back")
        dm(machine, "remove", "one")
        assert spare() == ("write-through", "write through")

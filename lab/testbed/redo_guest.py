# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine with a disk whose flushes end in memory (kernel/stop/disk_log_redo.c).

The first disk has a volatile cache: a loss of power takes what no flush of the disk has covered. It
has the file system under test, on the target `remanence-log`. The root is on the second one, and
cannot be lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from lab import format as fmt
from lab.errors import RemError
from lab.machine import Machine, MachineConfig
from lab.machine.config import DiskModel
from lab.paths import repo_dir
from lab.run import run
from lab.testbed import fsync_guest as guest
from lab.testbed.fsx import EXT4, FOLDER, FileSystem, check_structure, ext4_config, make, mount
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

REGISTRY_MIB, REDO_MIB, LOG_MIB = 48, 20, 16
REGISTRY = f"remanence.persist={REGISTRY_MIB}M"
REDO = f"remanence.persist_redo={REDO_MIB}M"
DISK, LOG = "/dev/vda", "redo"
NVME = "/dev/nvme0n1"
DEVICE = "/dev/dm-0"
TABLE = "/root/dm_table.py"
PROGRAM = "/usr/local/lib/new_files.py"
PROMISE_LIMIT_S = 60.0
PROGRAM_SOURCE = repo_dir() / "lab" / "testbed" / "new_files.py"


@dataclass(frozen=True)
class Ring:
    """The end of what the device mapper says of the log."""

    state: str
    covered: int
    head: int
    ended: int  # flushes, without the disk
    ended_writes: int


def redo_config(
    name: str,
    cpus: int = 2,
    disk: DiskModel = "virtio-blk",
    made: Callable[..., MachineConfig] = ext4_config,
) -> MachineConfig:
    """*made*: with which file systems, a function of lab/testbed/fsx.py."""
    config = made(name, disk_cache="volatile", cpus=cpus, disk=disk)
    assert config.root is not None
    # The only virtio disk, or the second one.
    line = f"root=/dev/{'vdb' if disk == 'virtio-blk' else 'vda'} {REDO}"
    return replace(config, cmdline_extra=line, blank_bytes=config.root.stat().st_size)


def disk_of(machine: Machine) -> str:
    return DISK if machine.config.disk == "virtio-blk" else NVME


@contextmanager
def redo_guest(name: str, cpus: int = 2, **changes: Any) -> Iterator[Machine]:
    """Booted, with the tools, and in force; there is no file system on the disk yet.

    *changes* are those of redo_config().
    """
    config = redo_config(name, cpus, **changes)
    with guest.machine_of(config, config.cmdline_extra, registry=REGISTRY) as machine:
        run(["cp", "--sparse=always", machine.files.disk, machine.files.blank])
        machine.boot()
        guest.wait_up(machine)
        guest.install(machine)
        machine.guest.put(repo_dir() / "lab" / "testbed" / "dm_table.py", TABLE)
        machine.guest.put(PROGRAM_SOURCE, PROGRAM)
        sh(machine, "sync")
        yield machine


def log_on(machine: Machine) -> None:
    """Make the device, whose disk has all that its ring had by now."""
    disk = disk_of(machine)
    table = f"0 $(blockdev --getsz {disk}) remanence-log {disk} {LOG_MIB}"
    device = sh(machine, f'python3 {TABLE} create {LOG} "{table}"').stdout.strip()
    assert device == DEVICE, device


def log_off(machine: Machine) -> None:
    sh(machine, f"python3 {TABLE} remove {LOG}")


def ring(machine: Machine) -> Ring:
    said = sh(machine, f"python3 {TABLE} status {LOG}").stdout.strip()
    found = re.search(r"redo (\w+) covered (\d+) head (\d+) ended (\d+) ended_writes (\d+)$", said)
    assert found is not None, said
    return Ring(found[1], *(int(found[n]) for n in range(2, 6)))


def rings(machine: Machine) -> list[list[str]]:
    """Lines of sysfs: number, state, slots, identity."""
    lines = sh(machine, f"cat {guest.SYSFS}/redo").stdout.splitlines()
    return [line.split(" ", 3) for line in lines]


def begin(machine: Machine, kind: FileSystem) -> None:
    """A new file system on a log, whatever was there before."""
    names = f"umount {FOLDER} 2>/dev/null; python3 {TABLE} remove {LOG} 2>/dev/null; true"
    sh(machine, f"pkill -KILL -f [n]ew_files.py; pkill -KILL -f [w]itness.py; sleep 0.5; {names}")
    log_on(machine)
    make(machine, kind, DEVICE)
    if kind.name == EXT4.name:  # it would fill the ring, so that the disk flushes
        sh(machine, f"mount -o remount,noinit_itable {FOLDER}")
    # What was done so far is on media.
    wait_until(lambda: guest.state(machine) == "memory", "a Stop is promised", PROMISE_LIMIT_S)
    sh(machine, f"sync -f {FOLDER}; for to in disk memory; do echo $to >{guest.SYSFS}/state; done")


def found_again(machine: Machine, kind: FileSystem) -> None:
    """After a boot: the log and the file system, with what the registry has."""
    if any(state != "used" for _, state, *_ in rings(machine)):
        raise BrokenError("promises-broken", f"not all was written again: {rings(machine)}")
    log_on(machine)
    try:
        mount(machine, kind, DEVICE)
    except RemError as error:
        raise BrokenError("promises-broken", f"it cannot be mounted: {error}") from error
    if guest.state(machine) == "found":
        report = guest.replay(machine, check=False)
        if report["damaged"] or report["failed"]:
            raise BrokenError("promises-broken", f"not all is written: {json.dumps(report)}")


def _first_entry(nvram: BinaryIO, area_at: int) -> bytes:
    size = fmt.CONST["REM_REDO_ENTRY_BYTES"]
    nvram.seek(area_at)
    entries = [nvram.read(size) for _ in range(fmt.CONST["REM_REDO_DISKS"])]
    magic = fmt.CONST["REM_REDO_MAGIC"]
    return next(one for one in entries if fmt.parse("rem_redo_disk", one).magic == magic)


def damage_ring(machine: Machine) -> None:
    """Flip a bit of the first write that waits. The machine has no power."""
    with machine.files.nvram(machine.config).open("r+b") as nvram:
        head_at = machine.config.nvram_bytes - 4096
        nvram.seek(head_at)
        head = fmt.parse("rem_registry", nvram.read(4096))
        area_at = head_at - head.pages * 4096 - head.redo_bytes
        entry = _first_entry(nvram, area_at)
        disk = fmt.parse("rem_redo_disk", entry)
        words = entry[fmt.CONST["REM_REDO_HEAD_AT"] :]
        size = fmt.size_of("rem_redo_word")
        copies = [fmt.parse("rem_redo_word", words[at:]) for at in (0, size)]
        first = max(word.position for word in copies) % disk.slots
        at = area_at + disk.offset + first * 4096
        nvram.seek(at)
        byte = nvram.read(1)[0]
        nvram.seek(at)
        nvram.write(bytes([byte ^ 1]))


def redone(machine: Machine) -> tuple[int, int]:
    """What this boot has written again, and what of it was damaged."""
    said = sh(machine, "dmesg").stdout
    found = re.findall(r"redo: .*: (\d+) writes were written again, (\d+) were damaged", said)
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


def new_files(machine: Machine, folder: str) -> guest.Acks:
    """It goes on until the end of the machine."""
    return guest.Acks(machine, f"python3 {PROGRAM} run {folder}")


def make_files(machine: Machine, folder: str, steps: int) -> None:
    """So many steps, all of which are acknowledged."""
    machine.run_in_guest(f"python3 {PROGRAM} run {folder} {steps}")


def check_files(machine: Machine, folder: str, acked: int) -> None:
    done = machine.run_in_guest(f"python3 {PROGRAM} check {folder} {acked}")
    lost: list[str] = json.loads(done.stdout)["lost"]
    if lost:
        raise BrokenError("promises-broken", "\n".join(lost[:20]))


def check_disk(machine: Machine, kind: FileSystem) -> None:
    """Unmount and check it; the log goes."""
    check_structure(machine, kind, DEVICE)
    log_off(machine)

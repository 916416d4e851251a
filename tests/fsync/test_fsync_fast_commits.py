# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a replay of ext4's fast commits adds no name twice (kernel/patches/0038), though the
folder has it: because the replay was cut short and begins again, or because a full commit has it,
which was under way when the name was made.

Method: a name is made and synced, then one before it in its folder is removed, and the first synced
once more. The disk is copied as it is then. A mount replays that; then the journal and the
superblock of the copy come back, as if the replay had been cut short when it had done all, and
another mount replays it again. Nothing of `remanence.persist=` is on: it is the kernel's own code
that this is about. What else is wrong with these fast commits is shown beside ext4 without them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.paths import repo_dir
from lab.testbed import fsx
from lab.testbed.fsx import (
    DISK,
    EXT4,
    EXT4_FAST,
    FOLDER,
    FileSystem,
    check_structure,
    ext4_config,
    mount,
)
from lab.testbed.fsync_guest import lose_power, wait_up
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import sh
from lab.verdict import BrokenError
from tests.support.claims import machine_name
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

BLOCK_BYTES, DISK_MIB = 4096, 64
PROGRAM = "/usr/local/lib/made_beside.py"
LOSSES = 8  # of power, for each
BEFORE = "/run/before"  # the disk before the first replay
MADE, REMOVED, FIRST = "made", "first-5", [f"first-{n}" for n in range(8)]

# From the copy to the disk: the blocks whose numbers are the arguments.
BLOCKS_BACK = f"""
import os, sys
source, disk = (os.open(path, os.O_RDWR) for path in sys.argv[1:3])
for block in map(int, sys.argv[3:]):
    os.pwrite(disk, os.pread(source, {BLOCK_BYTES}, block * {BLOCK_BYTES}), block * {BLOCK_BYTES})
os.fsync(disk)
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    config = ext4_config(machine_name("fast-commits"))
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        wait_up(made)
        yield made


def fast_commits(machine: Machine) -> int:
    said = sh(machine, f"cat /proc/fs/ext4/{DISK.removeprefix('/dev/')}/fc_info").stdout
    return int(said.split(" commits")[0].rsplit("\n", 1)[-1].split()[-1])


def make(machine: Machine) -> None:
    """The last full commit has the inode of `other`; the two after it are fast, and of `names`.

    An fsync of a folder would be a full commit. Its blocks are replayed first: with an inode of a
    file, or with a bitmap, what was removed would come back half.
    """
    options = f"-b {BLOCK_BYTES} -J size=4"
    sh(machine, f"umount {FOLDER} 2>/dev/null; {EXT4_FAST.make} {options} {DISK} {DISK_MIB}M")
    mount(machine, EXT4_FAST)
    names, other = f"{FOLDER}/names", f"{FOLDER}/other"
    first = " ".join(f"{names}/{name}" for name in FIRST)
    sh(machine, f"mkdir {names} {other} && touch {first} && umount {FOLDER}")
    mount(machine, EXT4_FAST)
    sh(machine, f"chmod 700 {other} && sync -f {FOLDER}")
    before = fast_commits(machine)
    sh(machine, f"mount -o remount,commit=300 {FOLDER}")
    sh(machine, f"touch {names}/{MADE}; sync {names}/{MADE}")
    sh(machine, f"rm {names}/{REMOVED}; echo {MADE} >{names}/{MADE}; sync {names}/{MADE}")
    assert fast_commits(machine) == before + 2, "not by fast commits"
    sh(machine, f"dd if={DISK} of={BEFORE} bs=1M count={DISK_MIB} iflag=direct 2>/dev/null")
    sh(machine, f"umount {FOLDER}")
    sh(machine, f"dd if={BEFORE} of={DISK} bs=1M conv=fsync 2>/dev/null")


def replay(machine: Machine) -> list[str]:
    """The names that are there after it."""
    mount(machine, EXT4_FAST)
    found = sh(machine, f"ls -U {FOLDER}/names").stdout.split()
    check_structure(machine, EXT4_FAST)
    return sorted(found)


def a_replay_may_begin_again(machine: Machine) -> None:
    make(machine)
    wanted = sorted({*FIRST, MADE} - {REMOVED})
    if (found := replay(machine)) != wanted:
        raise BrokenError("promises-broken", f"after a replay: {found}")
    blocks = sh(machine, f"debugfs -R 'blocks <8>' {DISK} 2>/dev/null").stdout.split()
    machine.guest.run(["python3", "-c", BLOCKS_BACK, BEFORE, DISK, "0", *blocks])
    if (found := replay(machine)) != wanted:
        raise BrokenError("promises-broken", f"after another replay: {found}")


def test_a_replay_may_begin_again(machine: Machine) -> None:
    plant(machine, NONE)
    a_replay_may_begin_again(machine)


def test_a_replay_that_does_not_look_is_found(machine: Machine) -> None:
    plant(machine, "fast-commit-unlooked")
    with must_be_found("fast-commit-unlooked", "Duplicate entry"):
        a_replay_may_begin_again(machine)


def is_whole_after_a_loss_of_power(machine: Machine, kind: FileSystem, pause_s: float) -> bool:
    """While programs make files, and one syncs: whether it can be mounted, and is consistent."""
    sh(machine, f"umount {FOLDER} 2>/dev/null; true")
    fsx.make(machine, kind)
    load = f"setsid python3 {PROGRAM} {FOLDER} >/dev/null 2>&1 </dev/null &"
    sh(machine, f"{load} until test -s {FOLDER}/synced; do sleep 0.1; done")
    time.sleep(pause_s)
    lose_power(machine)
    mounted = sh(machine, f"mkdir -p {FOLDER} && mount -t ext4 {DISK} {FOLDER}", check=False).ok
    if mounted:
        fsx.unmount(machine)
    return mounted and sh(machine, f"{kind.check} {DISK} 2>&1", check=False).ok


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_they_are_not_safe_while_files_are_made(machine: Machine) -> None:
    """A defect of this kernel, for which docs/how-to/let-fsync-end-in-memory.md warns of them. When
    a later kernel has none, this is red, and the warning can go."""
    machine.guest.put(repo_dir() / "lab" / "testbed" / "made_beside.py", PROGRAM)
    sh(machine, "sync")
    whole = {
        kind.make: [is_whole_after_a_loss_of_power(machine, kind, 0.3 * n) for n in range(LOSSES)]
        for kind in (EXT4, EXT4_FAST)
    }
    assert all(whole[EXT4.make]), whole
    assert not all(whole[EXT4_FAST.make]), whole

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""File systems on a second disk of a guest, and rem-fsx on them (guest/programs/rem-fsx.c).

with machine_of(fsx_config(name)) as machine:  vdb is blank
    make(machine, EXT4)                   made and mounted
    with Fsx(machine, EXT4, seed) as one: runs; each sync that it acknowledges is remembered
        one.wait(500)
    ...                                   a crash
    mount(machine, EXT4); one.check()
    check_structure(machine, EXT4)        by the file system's own program; unmounts
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lab.machine import Machine, MachineConfig
from lab.setup.kernel import FILESYSTEMS, MUTANTS
from lab.setup.products import Kernel, Root, need
from lab.testbed.fsync_guest import Acks
from lab.testbed.guest_job import PROGRAM_DIR
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import sh
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

DISK = "/dev/vdb"
DISK_BYTES = 512 << 20  # mkfs.xfs wants 300 MiB
FOLDER = "/mnt/fs"
PACKAGES = ("btrfs-progs", "xfsprogs")
PROGRAM = f"{PROGRAM_DIR}/rem-fsx"
STEP_LIMIT_S = 600.0  # only for hangs: on a crowded host a guest is slow


@dataclass(frozen=True)
class FileSystem:
    """How one is made and checked, and what of rem-fsx it does not have."""

    name: str
    make: str
    check: str
    lacks: tuple[str, ...] = ()
    leaves: str = "(?!)"  # lines of the check that the kernel's own code explains, on any disk


EXT4 = FileSystem("ext4", "mkfs.ext4 -q -F", "e2fsck -fn", ("clone",))
# Not mkfs's default: an fsync logs what has changed of an inode, and no whole blocks.
# A fast commit of Linux 6.12 does not wait for changes that are under way: an inode that was just
# being made may be in it without its name. So it is without anything of ours, and not on EXT4.
EXT4_FAST = FileSystem(
    "ext4",
    "mkfs.ext4 -q -F -O fast_commit",
    "e2fsck -fn",
    ("clone",),
    r"Unattached (zero-length )?inode \d+(\.  Clear\? no)?|Connect to /lost\+found\? no",
)
XFS = FileSystem("xfs", "mkfs.xfs -q -f", "xfs_repair -n")
BTRFS = FileSystem("btrfs", "mkfs.btrfs -q -f", "btrfs check", ("collapse", "insert"))
FILE_SYSTEMS = (EXT4, XFS, BTRFS)
# A crash may leave them half done, and not as after any whole operation.
NOT_AT_ONCE = ("collapse", "insert")
# After them an fsync waits for the disk; without them nearly all end in memory.
BY_DISK = (*NOT_AT_ONCE, "allocate", "clone", "direct", "punch", "truncate", "zero")


def fsx_config(name: str, **changes: Any) -> MachineConfig:
    """With a kernel that has these file systems and planted bugs, and a blank second disk."""
    root = need(Root.having(*PACKAGES))
    return _config(name, FILESYSTEMS, root=root, **changes)


def ext4_config(name: str, **changes: Any) -> MachineConfig:
    """The same with ext4 alone, which is in kernels that each machine has."""
    return _config(name, MUTANTS, **changes)


def _config(name: str, variant: str, **changes: Any) -> MachineConfig:
    kernel = need(Kernel(variant)).bz_image
    config = make_config(name, changes.pop("cpus", 2), kernel=kernel)
    return replace(config, **{"blank_bytes": DISK_BYTES, **changes})


def make(machine: Machine, kind: FileSystem, disk: str = DISK) -> None:
    sh(machine, f"mkdir -p {FOLDER} && {kind.make} {disk}")
    mount(machine, kind, disk)


def mount(machine: Machine, kind: FileSystem, disk: str = DISK) -> None:
    sh(machine, f"mkdir -p {FOLDER} && mount -t {kind.name} {disk} {FOLDER}")


def unmount(machine: Machine) -> None:
    sh(machine, f"umount {FOLDER}")


def check_structure(machine: Machine, kind: FileSystem, disk: str = DISK) -> None:
    """Unmount it; BrokenError if its own program finds that it is not consistent."""
    unmount(machine)
    done = sh(machine, f"{kind.check} {disk} 2>&1", check=False)
    is_explained = done.stdout.strip() and not complaints(kind, done.stdout)
    if not done.ok and not is_explained:
        raise BrokenError("promises-broken", f"{kind.check}: {done.stdout[-2000:]}")


# What e2fsck prints besides.
USUAL = re.compile(r"e2fsck \d|Pass \d|/dev/\S+: (\*+ WARNING: .* errors \*+|\d+/\d+ files .*)$|$")


def complaints(kind: FileSystem, text: str) -> list[str]:
    """Lines of the check that are neither usual nor explained."""
    explained = re.compile(kind.leaves)
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if not USUAL.match(line) and not explained.fullmatch(line)]


class Fsx(Acks):
    """rem-fsx on a file of its own; each acknowledgement of a sync is remembered on the host."""

    def __init__(
        self,
        machine: Machine,
        kind: FileSystem,
        seed: int,
        count: int = 0,
        lacks: tuple[str, ...] = (),
        folder: str = FOLDER,
    ) -> None:
        """With *count* it waits after so many operations, for a crash."""
        path = f"{folder}/fsx-{seed}"
        self.words = f"{PROGRAM} --path {path} --seed {seed}"
        if missing := ",".join(sorted({*kind.lacks, *lacks})):
            self.words += f" --lacks {missing}"
        held = f" --count {count} --hold 1" if count else ""
        super().__init__(machine, self.words + held)
        # The guest's ssh refuses several that connect at the same time.
        self._wait("rem-fsx has begun", lambda: "fsx" in self.acks)

    @property
    def acked(self) -> int:
        """Operations up to the last sync that was acknowledged."""
        return self.acks.get("fsx", 0)

    def wait_operations(self, more: int) -> None:
        """Until so many more have been acknowledged; BrokenError if it has found something."""
        wanted = self.acked + more
        self._wait(f"{more} operations of rem-fsx are done", lambda: self.acked >= wanted)

    def wait_done(self) -> None:
        """Until it has done all of its operations."""
        self._wait("rem-fsx has ended", lambda: "done" in self.acks)

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        wait_until(lambda: is_so() or self.ended, what, STEP_LIMIT_S)
        if self.ended:
            raise BrokenError("promises-broken", f"rem-fsx: {' | '.join(self.others[-60:])}")

    def check(self) -> None:
        """After a crash, with the file system mounted: BrokenError if a byte may not be so."""
        words = f"{self.words} --check 1 --acked {self.acked}"
        if "done" in self.acks:
            words += f" --done {self.acks['done']}"
        done = self.machine.run_in_guest(words, check=False, limit_s=STEP_LIMIT_S)
        if not done.ok:
            text = f"{done.stderr}{done.stdout}"[-4000:]
            raise BrokenError("promises-broken", f"{shlex.quote(words)}: {text}")


@contextmanager
def running(machine: Machine, kind: FileSystem, seed: int, **changes: Any) -> Iterator[Fsx]:
    one = Fsx(machine, kind, seed, **changes)
    try:
        yield one
    finally:
        one.close()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo pm`: a file system, a database and pointers survive three ends of the kernel."""

from __future__ import annotations

from collections.abc import Callable

from lab.demo.promises import Promises
from lab.machine import Machine
from lab.result import Result
from lab.testbed.pm_guest import (
    cut,
    guest_with_region,
    load,
    reset,
    sh,
)

ROWS = 500
DISK = "pmadmin ramdisk add disk && mkdir -p /mnt/pm"


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it in a machine that is destroyed afterwards."""
    promises = Promises(print_line, Result("demo-pm"))
    with guest_with_region(name) as machine:
        _make(machine, promises)
        for what, lose in (
            ("The kernel reboots without unmounting its file systems.", _reboot),
            ("The kernel panics.", _panic),
            ("The power fails: no warning, no Stop; QEMU gets SIGKILL.", cut),
        ):
            print_line(what)
            lose(machine)
            _check(machine, promises)
    promises.end()
    promises.result.add("rows", ROWS, "rows", "counted")
    return promises.result


def _reboot(machine: Machine) -> None:
    reset(machine, "b")


def _panic(machine: Machine) -> None:
    reset(machine, "c")


def _make(machine: Machine, promises: Promises) -> None:
    load(machine, "format=1")
    promises.print_line("pmcore formats a region of persistent memory:")
    for line in sh(machine, "pmadmin status").stdout.splitlines():
        promises.print_line(f"  {line}")
    sh(machine, "pmadmin create disk 64M --block 4096")
    sh(machine, "pmadmin create list 8M --map-address 0x100000000000")
    sh(machine, f"{DISK} && mkfs.ext4 -q /dev/pmrd0 && mount /dev/pmrd0 /mnt/pm")
    promises.print_line("ext4 on a disk of checked blocks, and a segment mapped at 0x100000000000:")
    for line in sh(machine, "pmadmin list").stdout.splitlines():
        promises.print_line(f"  {line}")
    sh(machine, f"python3 /root/pm-check.py make /mnt/pm {ROWS}")
    sh(machine, "python3 /root/pm-check.py tie list")
    promises.print_line(f"SQLite has committed {ROWS} rows one at a time; 1000 nodes are linked.")


def _check(machine: Machine, promises: Promises) -> None:
    load(machine)
    sh(machine, DISK)
    mounted = sh(machine, "mount /dev/pmrd0 /mnt/pm", check=False).ok
    promises.check(mounted, "the file system mounts")
    rows = sh(machine, f"python3 /root/pm-check.py check /mnt/pm {ROWS}", check=False)
    promises.check(rows.ok, f"each of {ROWS} committed rows is there, and the database is intact")
    tied = sh(machine, "python3 /root/pm-check.py follow list", check=False)
    promises.check(tied.ok, "each pointer leads to the same node as before")
    clean = sh(machine, "pmadmin scrub disk && pmadmin check", check=False)
    promises.check(clean.ok, "all blocks and both copies of the base segment have right checksums")
    sh(machine, "umount /mnt/pm", check=False)
    sound = sh(machine, "e2fsck -fn /dev/pmrd0", check=False)
    promises.check(sound.ok, "fsck finds no error")
    sh(machine, "mount /dev/pmrd0 /mnt/pm", check=False)

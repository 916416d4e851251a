# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo pm`: a file system, a database and pointers outlive three deaths of the kernel."""

from __future__ import annotations

from collections.abc import Callable

from lab.demo.pm_machine import (
    cut,
    guest_with_region,
    load,
    reset,
    sh,
)
from lab.demo.told import Told
from lab.machine import Machine
from lab.result import Result

ROWS = 500
DISK = "pmadmin ramdisk add disk && mkdir -p /mnt/pm"


def play(name: str, tell: Callable[[str], None]) -> Result:
    """The whole; the machine is gone afterwards."""
    told = Told(tell, Result("demo-pm"))
    with guest_with_region(name) as machine:
        _make(machine, told)
        for what, lose in (
            ("The kernel reboots without a word to its file systems.", _reboot),
            ("The kernel panics.", _panic),
            ("The power goes: no warning, no Stop; QEMU gets SIGKILL.", cut),
        ):
            tell(what)
            lose(machine)
            _look(machine, told)
    told.end()
    told.result.add("rows", ROWS, "rows", "counted")
    return told.result


def _reboot(machine: Machine) -> None:
    reset(machine, "b")


def _panic(machine: Machine) -> None:
    reset(machine, "c")


def _make(machine: Machine, told: Told) -> None:
    load(machine, "format=1")
    told.tell("A region of persistent memory is taken over:")
    for line in sh(machine, "pmadmin status").stdout.splitlines():
        told.tell(f"  {line}")
    sh(machine, "pmadmin create disk 64M --block 4096")
    sh(machine, "pmadmin create list 8M --map-address 0x100000000000")
    sh(machine, f"{DISK} && mkfs.ext4 -q /dev/pmrd0 && mount /dev/pmrd0 /mnt/pm")
    told.tell("A disk of checked blocks gets ext4; a segment is mapped at 0x100000000000:")
    for line in sh(machine, "pmadmin list").stdout.splitlines():
        told.tell(f"  {line}")
    sh(machine, f"python3 /root/pm-check.py make /mnt/pm {ROWS}")
    sh(machine, "python3 /root/pm-check.py tie list")
    told.tell(f"SQLite has committed {ROWS} rows, one at a time; 1000 nodes point to each other.")


def _look(machine: Machine, told: Told) -> None:
    load(machine)
    sh(machine, DISK)
    mounted = sh(machine, "mount /dev/pmrd0 /mnt/pm", check=False).ok
    told.promise(mounted, "the file system mounts")
    rows = sh(machine, f"python3 /root/pm-check.py check /mnt/pm {ROWS}", check=False)
    told.promise(rows.ok, f"each of {ROWS} committed rows is there, the database is whole")
    tied = sh(machine, "python3 /root/pm-check.py follow list", check=False)
    told.promise(tied.ok, "each pointer leads where it led")
    clean = sh(machine, "pmadmin scrub disk && pmadmin check", check=False)
    told.promise(clean.ok, "each block and each copy of the base segment checks")
    sh(machine, "umount /mnt/pm", check=False)
    sound = sh(machine, "e2fsck -fn /dev/pmrd0", check=False)
    told.promise(sound.ok, "fsck has nothing to say")
    sh(machine, "mount /dev/pmrd0 /mnt/pm", check=False)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""With volatile CPU caches, what was acknowledged is there after a cut without Stop.

Goal: the modules flush all that they must. Method: media holds only what was written back. Beside
a database, pointers and a segment that was synced, another one gets stores nobody flushed: were
those there, too, the caches would not be volatile and the rest would show nothing. And what a
program left in the caches when the modules were removed is there, once somebody has synced it.
"""

from __future__ import annotations

import os

import pytest

from lab.testbed.pm_guest import cut, guest_with_region, load, sh

pytestmark = pytest.mark.full

PROFILE = "wsp-c5528"
ROWS = 50
LINES = 1024
STORE = """
import mmap, os
for name, size in (("loose", 65536), ("tight", 65536), ("large", 4 << 20)):
    file = os.open("/dev/pm/" + name, os.O_RDWR)
    memory = mmap.mmap(file, size)
    # Again after the first fsync: by the same mapping, of pages that were clean.
    for word in (b"earlier!", b"durable!"):
        for at in range(0, 65536, 64):
            memory[at : at + 8] = word
        if name != "loose":
            os.fsync(file)
"""
COUNT = """
for name in ("loose", "tight", "large"):
    data = open("/dev/pm/" + name, "rb").read(65536)
    print(sum(data[at : at + 8] == b"durable!" for at in range(0, 65536, 64)))
"""
LEAVE = """
import mmap, os
memory = mmap.mmap(os.open("/dev/pm/loose", os.O_RDWR), 65536)
for at in range(0, 65536, 64):
    memory[at : at + 8] = b"left it!"
"""
RELOAD = (
    "rmmod pmramd pmbc pmcore && insmod /root/pmcore.ko device=/dev/pmem0"
    " && dd if=/dev/null of=/dev/pm/loose count=0 conv=notrunc,fsync status=none"
)


@pytest.mark.in_turn
def test_what_was_acknowledged_was_flushed() -> None:
    name = f"t-pmc-{os.getpid()}"
    with guest_with_region(name, cpus=1, caches=PROFILE) as machine:
        load(machine, "format=1")
        sh(machine, "pmadmin create disk 16M --block 4096")
        sh(machine, "pmadmin create list 8M --map-address 0x100000000000")
        sh(machine, "pmadmin create loose 1M && pmadmin create tight 1M")
        sh(machine, "pmadmin create large 4M")  # mapped by a large page
        sh(machine, "pmadmin ramdisk add disk && mkdir -p /mnt/pm && mkfs.ext4 -q /dev/pmrd0")
        sh(machine, "mount /dev/pmrd0 /mnt/pm")
        sh(machine, f"python3 /root/pm-check.py make /mnt/pm {ROWS}")
        sh(machine, "python3 /root/pm-check.py tie list")
        sh(machine, f"python3 -c '{STORE}'")
        cut(machine)
        load(machine)
        sh(machine, "mkdir -p /mnt/pm && pmadmin ramdisk add disk && mount /dev/pmrd0 /mnt/pm")
        sh(machine, f"python3 /root/pm-check.py check /mnt/pm {ROWS}")
        sh(machine, "python3 /root/pm-check.py follow list")
        sh(machine, "pmadmin scrub disk && pmadmin check")
        counts = map(int, sh(machine, f"python3 -c '{COUNT}'").stdout.split())
        loose, tight, large = counts
        assert tight == large == LINES
        assert loose < LINES, "nothing was lost: the caches are not volatile"
        sh(machine, "umount /mnt/pm && pmadmin ramdisk remove disk && sync")
        sh(machine, f"python3 -c '{LEAVE}' && {RELOAD}")
        cut(machine)
        load(machine)
        left = sh(machine, "grep -ao 'left it!' /dev/pm/loose | wc -l").stdout
        assert int(left) == LINES, "it was synced by the module that came after"

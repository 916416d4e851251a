# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A file system with direct access (DAX) on a disk of a raw segment.

Goal: programs that map its files have the segment's own memory, and what they synced outlives a
cut. Method: what is stored through the mapping is looked for in the segment, below the file system,
before anything was synced; with a page cache between them it would not be there (which is tried).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import cut, guest_with_region, kernel_complaints, load, sh

# The first test builds the modules.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

MARK = "direct-access-mark"
# MAP_SHARED_VALIDATE and MAP_SYNC: refused where a mapping is not the memory itself.
MAP_SYNC = 0x80003
STORE = f"""
import mmap, os, sys
file = os.open("/mnt/dax/file", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4 << 20)
os.posix_fallocate(file, 0, 4 << 20)
os.fsync(file)
memory = mmap.mmap(file, 4 << 20, flags=int(sys.argv[1]))
for at in range(0, 4 << 20, 4096):
    memory[at : at + 32] = b"{MARK}".ljust(24) + at.to_bytes(8, "little")
data = open("/dev/pm/dax", "rb").read()
print(data.count(b"{MARK}"), flush=True)
memory.flush()
os._exit(0)
"""
COUNT = f"""
data = open("/mnt/dax/file", "rb").read()
print(sum(data[at : at + 32] == b"{MARK}".ljust(24) + at.to_bytes(8, "little")
      for at in range(0, 4 << 20, 4096)))
"""

LENT = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
file = os.open("/mnt/dax/lent", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(file, 0, 8192)
memory = mmap.mmap(file, 8192)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
direct = os.open("/root/pmcore.ko", os.O_RDONLY | os.O_DIRECT)
assert libc.pread(direct, ctypes.c_void_p(at), 4096, 0) == 4096, ctypes.get_errno()
assert memory[:4096] == open("/root/pmcore.ko", "rb").read(4096)
out = os.open("/root/direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
assert libc.pwrite(out, ctypes.c_void_p(at), 4096, 0) == 4096, ctypes.get_errno()
assert open("/root/direct", "rb").read() == memory[:4096]
os.unlink("/root/direct")
# Stores of the kernel itself: for a debugger, and of a disk that is memory.
mem = os.open("/proc/self/mem", os.O_RDWR)
assert os.pwrite(mem, b"debugger", at + 8) == 8
assert memory[8:16] == b"debugger"
ram = os.open("/dev/pmrd1", os.O_RDONLY | os.O_DIRECT)
assert libc.pread(ram, ctypes.c_void_p(at), 4096, 0) == 4096, ctypes.get_errno()
assert memory[:7] == b"content"
FUTEX, WAIT, WAKE = 202, 0, 1
word = ctypes.c_void_p(at + 4096)
if not os.fork():
    libc.syscall(FUTEX, word, WAIT, 0, None, None, 0)
    os._exit(0)
while libc.syscall(FUTEX, word, WAKE, 1, None, None, 0) == 0:
    pass
os.wait()
print("lent")
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_region(f"t-pmd-{os.getpid()}") as made:
        load(made, "format=1")
        sh(made, "mkdir -p /mnt/dax && pmadmin create dax 64M")
        yield made


def test_a_mapped_file_is_the_segments_memory(machine: Machine) -> None:
    added = sh(machine, "pmadmin ramdisk add dax")
    assert added.stderr == ""
    sh(machine, "mkfs.ext4 -q -b 4096 /dev/pmrd0 && mount -o dax=always /dev/pmrd0 /mnt/dax")
    assert sh(machine, f"python3 -c '{STORE}' {MAP_SYNC}").stdout.strip() == "1024"
    cut(machine)
    load(machine)
    sh(machine, "mkdir -p /mnt/dax && pmadmin ramdisk add dax")
    sh(machine, "mount -o dax=always /dev/pmrd0 /mnt/dax")
    assert sh(machine, f"python3 -c '{COUNT}'").stdout.strip() == "1024"
    sh(machine, "umount /mnt/dax && e2fsck -fn /dev/pmrd0")
    assert not kernel_complaints(machine)


def test_a_mapped_file_is_lent(machine: Machine) -> None:
    """O_DIRECT into it and out of it, and futexes between processes: what segments do not have.

    Where the kernel itself stores to the lent page, it does so by its own mapping of the memory.
    """
    sh(machine, "mount -o dax=always /dev/pmrd0 /mnt/dax && pmadmin create ram 1M")
    sh(machine, "printf content >/dev/pm/ram && test $(pmadmin ramdisk add ram) = /dev/pmrd1")
    assert sh(machine, f"timeout 60 python3 -c '{LENT}'").stdout.strip() == "lent"
    sh(machine, "umount /mnt/dax && e2fsck -fn /dev/pmrd0")
    sh(machine, "pmadmin ramdisk remove ram && pmadmin destroy --yes ram")
    assert not kernel_complaints(machine)


def test_with_a_page_cache_the_same_is_not_there(machine: Machine) -> None:
    """The negative proof of the test above."""
    sh(machine, "mkfs.ext4 -q -F -b 4096 /dev/pmrd0 && dd if=/dev/zero of=/dev/pmrd0 bs=1M || true")
    sh(machine, "mkfs.ext4 -q -F -b 4096 /dev/pmrd0 && mount /dev/pmrd0 /mnt/dax")
    assert not sh(machine, f"python3 -c '{STORE}' {MAP_SYNC}", check=False).ok
    assert sh(machine, f"python3 -c '{STORE}' 1").stdout.strip() == "0"
    sh(machine, "umount /mnt/dax && pmadmin ramdisk remove dax && pmadmin destroy --yes dax")


def test_a_disk_of_checked_blocks_has_none(machine: Machine) -> None:
    sh(machine, "pmadmin create blocks 32M --block 4096")
    added = sh(machine, "pmadmin ramdisk add blocks")
    assert "without direct access" in added.stderr
    disk = added.stdout.strip()
    sh(machine, f"mkfs.ext4 -q -b 4096 {disk}")
    assert not sh(machine, f"mount -o dax=always {disk} /mnt/dax", check=False).ok
    sh(machine, "pmadmin ramdisk remove blocks")


def test_memory_of_the_kernels_own_has_none_and_pmadmin_says_so(aside: Machine) -> None:
    load(aside, "format=1", source="reserved=pm")
    sh(aside, "pmadmin create plain 16M")
    assert "without direct access" in sh(aside, "pmadmin ramdisk add plain").stderr
    sh(aside, "mkfs.ext4 -q -b 4096 /dev/pmrd0 && mkdir -p /mnt/dax")
    assert not sh(aside, "mount -o dax=always /dev/pmrd0 /mnt/dax", check=False).ok
    sh(aside, "mount /dev/pmrd0 /mnt/dax && umount /mnt/dax")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The service under Debian's own 6.12 kernel, as people have it: modules, file systems, a cut.

Goal: the same modules, built for that kernel, do there what they do on ours. Method: the guest's
root on Debian's kernel with Debian's modules. Each kind of file system is made on a disk of checked
blocks, written to by four programs side by side, loses its power, is checked by its own fsck, and
has what was synced. In the soak tier all tests of our kernel run here (test_pm_stock_all.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import (
    cut,
    guest_with_stock,
    load,
    sh,
    status,
    unload,
)

pytestmark = [
    pytest.mark.full,
    pytest.mark.in_turn("file"),
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("quiet"),
]

DISK = "pmadmin ramdisk add fs"
# How it is made, and how it is checked without being repaired. mkfs.xfs makes one of less than
# 300 MB only for its own tests.
KINDS = {
    "ext4": ("mkfs.ext4 -q -F", "e2fsck -fn"),
    "xfs": ("TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q -f", "xfs_repair -n"),
    "btrfs": ("mkfs.btrfs -q -f", "btrfs check --readonly"),
    # Without a journal: a cut leaves it marked as not unmounted, which is repaired first.
    "vfat": ("mkfs.vfat", "sh -c 'fsck.vfat -a $0; fsck.vfat -n $0'"),
}
# A sum is written and synced behind its file: what has a sum was acknowledged.
WRITE = (
    "for n in 1 2 3 4; do (for r in 1 2 3; do dd if=/dev/urandom of=f$n.$r bs=64k count=8"
    " status=none; sync f$n.$r; md5sum f$n.$r >f$n.$r.sum; sync f$n.$r.sum; done) & done; wait"
)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_stock(f"t-pmk-{os.getpid()}") as made:
        load(made, "format=1")
        yield made


def test_it_is_debians_kernel_and_says_what_it_cannot_promise(machine: Machine) -> None:
    assert "+deb" in sh(machine, "uname -r").stdout
    found = status(machine)
    assert (found["same_address"], found["dax"], found["protected"]) == (False, True, True)
    assert not sh(machine, "pmadmin create x 1M --persist fof", check=False).ok


@pytest.mark.parametrize(
    "kind",
    [
        "ext4",
        "xfs",
        pytest.param("btrfs", marks=pytest.mark.soak),
        pytest.param("vfat", marks=pytest.mark.soak),
    ],
)
def test_a_file_system_outlives_a_cut(machine: Machine, kind: str) -> None:
    make, check = KINDS[kind]
    sh(machine, f"modprobe {kind}; pmadmin create fs 160M --block 4096; mkdir -p /mnt/x")
    sh(machine, f"{DISK} && {make} /dev/pmrd0 && mount -t {kind} /dev/pmrd0 /mnt/x")
    sh(machine, f"cd /mnt/x && {WRITE}")
    # What goes on when the power goes.
    sh(machine, "setsid sh -c 'while dd if=/dev/zero of=/mnt/x/busy bs=64k count=64 status=none;"
                " do :; done' >/dev/null 2>&1 & sleep 1")  # fmt: skip
    cut(machine)
    load(machine)
    sh(machine, f"modprobe {kind}; mkdir -p /mnt/x && {DISK} && mount -t {kind} /dev/pmrd0 /mnt/x")
    sh(machine, "cd /mnt/x && test $(ls f*.sum | wc -l) = 12 && md5sum --quiet -c f*.sum")
    sh(machine, f"umount /mnt/x && {check} /dev/pmrd0 && pmadmin scrub fs")
    sh(machine, "pmadmin ramdisk remove fs && pmadmin destroy --yes fs")


def test_changes_can_be_traced(machine: Machine) -> None:
    """Here, for our kernel has no tracing."""
    tracing = "/sys/kernel/tracing"
    sh(machine, f"mountpoint -q {tracing} || mount -t tracefs none {tracing}")
    sh(machine, f"for n in pmcore pmbc; do echo 1 >{tracing}/events/$n/enable; done")
    sh(machine, "pmadmin create traced 64K --block 512")
    disk = sh(machine, "pmadmin ramdisk add traced").stdout.strip()
    sh(machine, f"dd if=/dev/zero of={disk} bs=512 count=1 oflag=direct")
    sh(machine, "pmadmin ramdisk remove traced && pmadmin destroy --yes traced")
    sh(machine, f"for n in pmcore pmbc; do echo 0 >{tracing}/events/$n/enable; done")
    seen = sh(machine, f"cat {tracing}/trace").stdout
    assert "pmbc_transaction: name=traced blocks=1 err=0" in seen
    assert len(re.findall(r"pmcore_segment: .*name=traced ", seen)) == 2


def test_direct_access_works_there_too(machine: Machine) -> None:
    sh(machine, "pmadmin create dax 64M && modprobe xfs")
    disk = sh(machine, "pmadmin ramdisk add dax").stdout.strip()
    sh(machine, f"mkfs.ext4 -q -b 4096 {disk} && mount -o dax=always {disk} /mnt/x")
    sh(machine, "cp /usr/bin/python3 /mnt/x/ && sync && cmp /usr/bin/python3 /mnt/x/python3")
    sh(machine, "umount /mnt/x && pmadmin ramdisk remove dax && pmadmin destroy --yes dax")


def test_modules_unload(machine: Machine) -> None:
    unload(machine)

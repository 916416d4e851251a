# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Persistent memory under loads that mean it ill, under Debian's kernel, which has xfs.

Goal: what was acknowledged is there after each of several cuts, on ext4 and xfs at the same time;
users of a segment hold it; a full region is not in its own way. Method: programs change files at
random and acknowledge on media (pm/guest/pm-torture.py), or fill the region with segments
(pm-full.py); the power goes again and again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.pm_guest import cut, guest_with_stock, load, sh, status

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600), pytest.mark.usefixtures("quiet")]

CUTS = 4
FILES = 3  # of each file system
WORK_S = 6
KINDS = {
    "ext4": ("mkfs.ext4 -q -F", "e2fsck -fn"),
    "xfs": ("TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q -f", "xfs_repair -n"),
}
TORTURE = "python3 /root/pm-torture.py"
FULL = "python3 /root/pm-full.py"
LEFT_BYTES = 6 << 20  # of a region that is to be full again and again
FULL_TIMES = 5  # before each cut


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_stock(f"t-pmt-{os.getpid()}") as made:
        load(made, "format=1")
        yield made


def mounted(machine: Machine, kind: str) -> str:
    """Its disk, with a file system that is there already."""
    disk = sh(machine, f"modprobe {kind}; pmadmin ramdisk add {kind}").stdout.strip()
    sh(machine, f"mkdir -p /mnt/{kind} && mount -t {kind} {disk} /mnt/{kind}")
    return disk


def begin(machine: Machine, kind: str) -> None:
    for number in range(FILES):
        words = f"{TORTURE} work /mnt/{kind} acks-{kind} {number}"
        sh(machine, f"setsid {words} >/root/{kind}-{number}.out 2>&1 </dev/null & sleep 0.1")


def acknowledged(machine: Machine, kind: str) -> int:
    """Writes that were, which all are there; what is wrong otherwise ends the test."""
    return int(sh(machine, f"{TORTURE} check /mnt/{kind} acks-{kind} {FILES}").stdout)


def the_check_can_fail(machine: Machine, kind: str) -> None:
    """It does where a version was acknowledged that was never written."""
    sh(machine, f"{TORTURE} raise acks-{kind} 2")
    wrong = sh(machine, f"{TORTURE} check /mnt/{kind} acks-{kind} {FILES}", check=False)
    assert not wrong.ok
    assert "neither version" in wrong.stderr
    sh(machine, f"{TORTURE} raise acks-{kind} -2")
    acknowledged(machine, kind)


def test_files_outlive_one_cut_after_the_other(machine: Machine) -> None:
    for kind, (make, _) in KINDS.items():
        sh(machine, f"modprobe {kind}; pmadmin create {kind} 110M --block 4096")
        sh(machine, f"pmadmin create acks-{kind} 64K")
        disk = sh(machine, f"pmadmin ramdisk add {kind}").stdout.strip()
        sh(machine, f"{make} {disk} && pmadmin ramdisk remove {kind}")
    before = dict.fromkeys(KINDS, 0)
    for _ in range(CUTS):
        disks = {kind: mounted(machine, kind) for kind in KINDS}
        for kind in KINDS:
            begin(machine, kind)
        sh(machine, f"sleep {WORK_S}; ps ax | grep -c '[p]m-torture.py work'")
        cut(machine)
        load(machine)
        disks = {kind: mounted(machine, kind) for kind in KINDS}
        for kind, (_, check) in KINDS.items():
            writes = acknowledged(machine, kind)
            assert writes > before[kind], f"{kind}: nothing was written in this round"
            before[kind] = writes
            the_check_can_fail(machine, kind)
            sh(machine, f"umount /mnt/{kind} && {check} {disks[kind]} && pmadmin scrub {kind}")
            sh(machine, f"pmadmin ramdisk remove {kind}")
    for kind in KINDS:
        sh(machine, f"pmadmin destroy --yes {kind} && pmadmin destroy --yes acks-{kind}")


def test_a_mapping_holds_its_segment_and_the_module(machine: Machine) -> None:
    """Destroy, move and unloading are refused as long as a program has it mapped."""
    sh(machine, "pmadmin create held 4M && pmadmin create behind 4M")
    hold = (
        "import mmap,time; f=open('/dev/pm/held','r+b',buffering=0);"
        "m=mmap.mmap(f.fileno(),4<<20); f.close(); m[0]=7; time.sleep(600)"
    )
    sh(machine, f'setsid python3 -c "{hold}" >/dev/null 2>&1 </dev/null & echo $! >/root/holder')
    sh(machine, "until pmadmin list | grep -q '^held.* [1-9][0-9]* users'; do sleep 0.2; done")
    for command in ("destroy --yes held", "resize held 1M"):
        assert "in use" in sh(machine, f"pmadmin {command}", check=False).stderr, command
    assert not sh(machine, "pmadmin resize held 8M", check=False).ok  # it would move
    assert not sh(machine, "rmmod pmramd && rmmod pmbc && rmmod pmcore", check=False).ok
    sh(machine, "insmod /root/pmbc.ko; insmod /root/pmramd.ko; lsmod | grep -q pmcore")
    sh(machine, "kill $(cat /root/holder); until pmadmin destroy --yes held; do sleep 0.2; done")
    sh(machine, "pmadmin destroy --yes behind")


def test_a_segment_grows_under_those_who_write_to_it(machine: Machine) -> None:
    sh(machine, "pmadmin create grows 1M")
    write = (
        "exec 5<>/dev/pm/grows; while :; do"
        " dd if=/dev/zero of=/dev/pm/grows bs=64k count=16 conv=notrunc status=none || exit; done"
    )
    sh(machine, f"setsid sh -c '{write}' >/root/grows.out 2>&1 </dev/null & echo $! >/root/writer")
    for megabytes in range(2, 20):
        sh(machine, f"pmadmin resize grows {megabytes}M")
    assert not sh(machine, "pmadmin resize grows 2M", check=False).ok  # it is written to
    sh(machine, "kill -0 $(cat /root/writer) && test ! -s /root/grows.out")
    sh(
        machine,
        "kill -- -$(cat /root/writer); until pmadmin destroy --yes grows; do sleep 0.2; done",
    )


def test_a_region_that_is_full_loses_nothing(machine: Machine) -> None:
    """Segments come, grow and go where there is no space, over one cut after the other."""
    free = status(machine)["free_bytes"]
    sh(machine, f"pmadmin create ballast {free - LEFT_BYTES}")
    for seed in range(CUTS):
        work = f"setsid {FULL} work {seed} >/root/full.out 2>/root/full.err </dev/null"
        sh(machine, f"{work} & echo $! >/root/filler")
        # As long as it lives: it ends only by an error, which it tells.
        full = f"test $(grep -c full /root/full.out) -ge {FULL_TIMES}"
        sh(machine, f"until {full}; do kill -0 $(cat /root/filler) || exit 1; sleep 0.2; done")
        cut(machine)
        load(machine)
        sh(machine, f"{FULL} check && pmadmin check")
        sh(machine, f"{FULL} spoil")
        wrong = sh(machine, f"{FULL} check", check=False)
        assert not wrong.ok
        assert "neither its name" in wrong.stderr
        sh(machine, f"{FULL} spoil")
    names = "pmadmin list | awk '/^f[0-9]/ {print $1}'"
    sh(machine, f"for n in $({names}) ballast; do pmadmin destroy --yes $n; done")
    assert status(machine)["free_bytes"] == free

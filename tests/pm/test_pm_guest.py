# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The modules in a guest: rights, limits, users of segments, disks, damage, unloading.

Goal: pmadmin(8) is true, and nothing in it disturbs the kernel. Method: one machine with a new
region; damage is done to its NVRAM file while the power is off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import format as fmt
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed.pm_guest import (
    guest_with_region,
    install,
    kernel_complaints,
    load,
    region_offset,
    sh,
    status,
    unload,
    wait_up,
)
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("quiet")]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_region(f"t-pmg-{os.getpid()}") as made:
        yield made


def names(machine: Machine) -> list[str]:
    return [segment["name"] for segment in json.loads(sh(machine, "pmadmin --json list").stdout)]


def test_memory_without_a_region_is_left_alone(machine: Machine) -> None:
    before = sh(machine, "test -b /dev/pmem0 && head -c 4M /dev/pmem0 | md5sum").stdout
    assert not sh(machine, "insmod /root/pmcore.ko device=/dev/pmem0", check=False).ok
    assert sh(machine, "head -c 4M /dev/pmem0 | md5sum").stdout == before
    assert not sh(machine, "insmod /root/pmcore.ko", check=False).ok
    assert not sh(machine, "insmod /root/pmcore.ko reserved=nothing", check=False).ok


def test_a_region_is_made_over_content_only_by_force(machine: Machine) -> None:
    sh(machine, "mkfs.ext4 -q /dev/pmem0")
    look = "e2fsck -fn /dev/pmem0 && head -c 4M /dev/pmem0 | md5sum"
    before = sh(machine, look).stdout
    words = "device=/dev/pmem0 format=1"
    assert not sh(machine, f"insmod /root/pmcore.ko {words}", check=False).ok
    assert "something else is there" in sh(machine, "dmesg | tail -n 3").stdout
    assert sh(machine, look).stdout == before
    load(machine, "format=1", "force=1")
    assert names(machine) == []


def test_segments_are_made_resized_and_destroyed(machine: Machine) -> None:
    sh(machine, "pmadmin create one 3M && pmadmin create two 1M && pmadmin resize one 5M")
    assert names(machine) == ["one", "two"]
    sh(machine, "printf hello >/dev/pm/one && pmadmin resize one 9M")
    assert sh(machine, "head -c 5 /dev/pm/one").stdout == "hello"
    assert sh(machine, "stat -c %a /dev/pm/one").stdout.strip() == "600"
    sh(machine, "pmadmin destroy --yes one && test ! -e /dev/pm/one")
    assert names(machine) == ["two"]


def test_a_read_may_go_into_a_mapping_of_another_segment(machine: Machine) -> None:
    sh(machine, "pmadmin create from 1M && printf hello >/dev/pm/from")
    sh(
        machine,
        "timeout 20 python3 -c \"import mmap,os; a=os.open('/dev/pm/from',os.O_RDWR);"
        " b=os.open('/dev/pm/two',os.O_RDWR); m=mmap.mmap(b,1<<20);"
        " assert os.preadv(a,[m],0)==1<<20 and m[:5]==b'hello'\"",
    )
    sh(machine, "pmadmin destroy --yes from")


def test_a_mapping_is_read_by_a_debugger_and_may_be_private(machine: Machine) -> None:
    """What cannot be had (O_DIRECT, futexes between processes) is an error, not a wrong result."""
    sh(machine, "pmadmin create maps 4M")
    assert sh(machine, "python3 /root/pm-maps.py maps").stdout.strip() == "in order"
    assert not kernel_complaints(machine)
    sh(machine, "pmadmin destroy --yes maps")


SYNCS = """
import mmap, os, sys
def written():
    with open("/sys/class/misc/pmctl/region/written_back_bytes") as file:
        return int(file.read())
file = os.open("/dev/pm/" + sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, int(sys.argv[2]))
for at in (5000, None, 5000, 9 << 20):
    if at is not None:
        memory[at] = 1
    before = written()
    memory.flush()
    print(written() - before)
"""


def test_a_sync_takes_what_was_stored_to(machine: Machine) -> None:
    """Of a page of either size, once after each store: not the segment, and not nothing."""
    sh(machine, "pmadmin create large 64M --map-address 0x100000000000")
    counts = [int(n) for n in sh(machine, f"python3 -c '{SYNCS}' large {64 << 20}").stdout.split()]
    assert counts[1] == 0
    assert all(0 < counts[i] <= 2 << 20 for i in (0, 2, 3)), counts
    sh(machine, "pmadmin destroy --yes large && pmadmin create few 1M")
    code = SYNCS.replace("9 << 20", "9 << 16")
    assert sh(machine, f"python3 -c '{code}' few {1 << 20}").stdout.split() == [
        "4096",
        "0",
        "4096",
        "4096",
    ]
    sh(machine, "pmadmin destroy --yes few")


def check_sync_behind_a_held_store(machine: Machine) -> None:
    """The page of a store is written back, whatever syncs and reads in the middle of its fault."""
    sh(machine, "pmadmin create held 64K")
    written_bytes = int(sh(machine, "python3 /root/pm-mkwrite.py held").stdout)
    sh(machine, "pmadmin destroy --yes held")
    if written_bytes != 4096:
        raise BrokenError("promises-broken", f"a sync wrote {written_bytes} bytes back")


def test_a_sync_in_the_middle_of_a_fault_misses_no_store(machine: Machine) -> None:
    check_sync_behind_a_held_store(machine)


def test_a_disk_and_a_writer_exclude_each_other(machine: Machine) -> None:
    """A segment that is a disk is read beside it, and not written to; also one of blocks."""
    sh(machine, "pmadmin create raw 4M && pmadmin create blk 4M --block 4096")
    done = sh(machine, "exec 5<>/dev/pm/raw; pmadmin ramdisk add raw 5>&-", check=False)
    assert "in use" in done.stderr
    write = "cd /root && python3 -c \"import pm; b = pm.Blocks('blk'); b.write({0: bytes(4096)})\""
    sh(machine, write)
    for name in ("raw", "blk"):
        disk = sh(machine, f"pmadmin ramdisk add {name}").stdout.strip()
        sh(machine, f"mkfs.ext4 -q -b 4096 {disk} && mkdir -p /mnt/x && mount {disk} /mnt/x")
        if name == "raw":
            assert "busy" in sh(machine, ": 1<>/dev/pm/raw", check=False).stderr
            sh(machine, "head -c 4096 /dev/pm/raw >/dev/null")
        else:
            assert not sh(machine, write, check=False).ok
        sh(machine, f"umount /mnt/x && e2fsck -fn {disk} && pmadmin ramdisk remove {name}")
    sh(machine, f": 1<>/dev/pm/raw && {write}")
    sh(machine, "pmadmin destroy --yes raw && pmadmin destroy --yes blk")


def test_a_disk_goes_only_while_nobody_has_it_open(machine: Machine) -> None:
    sh(machine, "pmadmin create raw 1M && python3 /root/pm-openers.py raw 100")
    sh(machine, "pmadmin destroy --yes raw")


@pytest.mark.parametrize("block", ["1000", "256", "128K", "0", "4G"])
def test_blocks_that_cannot_be_laid_out_are_refused(machine: Machine, block: str) -> None:
    done = sh(machine, f"pmadmin create odd 1M --block {block}", check=False)
    assert done.returncode in (2, 4)
    assert names(machine) == ["two"]


@pytest.mark.parametrize("name", ["a/b", "..", "-x", "x" * 64, "with space"])
def test_names_that_are_no_file_names_are_refused(machine: Machine, name: str) -> None:
    done = sh(machine, f"pmadmin create -- '{name}' 1M", check=False)
    assert done.returncode == 4
    assert names(machine) == ["two"]


def test_a_full_region_says_so(machine: Machine) -> None:
    done = sh(machine, "pmadmin create huge 1G", check=False)
    assert done.returncode == 4
    assert "No space left" in done.stderr


def test_a_user_without_rights_gets_nothing(machine: Machine) -> None:
    user = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    for command in ("pmadmin status", "cat /dev/pm/two", "pmadmin destroy --yes two"):
        assert not sh(machine, f"{user} {command}", check=False).ok, command
    # Where the file's mode is opened by mistake the segment's own rights still hold.
    sh(machine, "chmod 666 /dev/pm/two /dev/pmctl")
    assert not sh(machine, f"{user} head -c 1 /dev/pm/two", check=False).ok
    assert not sh(machine, f"{user} pmadmin destroy --yes two", check=False).ok
    assert not sh(machine, f"{user} pmadmin resize-region 128M", check=False).ok
    sh(machine, "chmod 660 /dev/pmctl")


def test_what_is_in_use_is_not_destroyed(machine: Machine) -> None:
    busy = "exec 5</dev/pm/two; pmadmin destroy --yes two 5<&-"
    assert not sh(machine, busy, check=False).ok
    assert "two" in names(machine)
    assert not sh(machine, "exec 5</dev/pm/two; rmmod pmramd pmbc pmcore", check=False).ok
    sh(machine, "lsmod | grep -q pmcore && insmod /root/pmbc.ko; insmod /root/pmramd.ko; true")


def test_a_region_is_not_shrunk_over_a_segment(machine: Machine) -> None:
    assert not sh(machine, "pmadmin resize-region 1M", check=False).ok
    sh(machine, "pmadmin resize-region 192M")
    assert status(machine)["wish_bytes"] == 192 << 20
    sh(machine, "pmadmin resize-region 0")


@pytest.mark.in_turn
def test_a_hundred_disks_hold_file_systems_of_their_own(machine: Machine) -> None:
    sh(
        machine,
        "set -e; mkdir -p /mnt/x; for n in $(seq 100); do pmadmin create d$n 512K;"
        " d=$(pmadmin ramdisk add d$n); echo content $n | dd of=$d conv=sync status=none; done;"
        ' for n in $(seq 100); do head -c 20 /dev/pm/d$n | grep -qx "content $n"; done',
    )
    sh(
        machine,
        "set -e; for n in $(seq 100); do pmadmin ramdisk remove d$n;"
        " pmadmin destroy --yes d$n; done",
    )
    assert names(machine) == ["two"]


@pytest.mark.parametrize(
    "block_bytes", [0, *(pytest.param(size, marks=pytest.mark.in_turn) for size in (512, 4096))]
)
def test_files_written_side_by_side_are_read_back(machine: Machine, block_bytes: int) -> None:
    block = f"--block {block_bytes}" if block_bytes else ""
    sh(machine, f"pmadmin create fs 48M {block}")
    disk = sh(machine, "pmadmin ramdisk add fs").stdout.strip()
    sh(
        machine,
        f"set -e; mkfs.ext4 -q {disk}; mount {disk} /mnt/x; cd /mnt/x;"
        " for n in 1 2 3 4; do (for r in $(seq 20); do dd if=/dev/urandom of=f$n bs=64k count=8"
        " status=none; md5sum f$n >f$n.sum; done) & done; wait; sync;"
        " echo 3 >/proc/sys/vm/drop_caches; md5sum --quiet -c f1.sum f2.sum f3.sum f4.sum;"
        f" fstrim -v /mnt/x || true; cd /; umount /mnt/x; e2fsck -fn {disk}",
    )
    sh(machine, "pmadmin ramdisk remove fs && pmadmin destroy --yes fs")


def faults_of(machine: Machine, name: str) -> int:
    """Of touching each of its pages."""
    return int(sh(machine, f"cd /root && python3 /root/pm-huge.py {name}").stdout)


@pytest.mark.parametrize(("mib", "by_large_pages"), [(4, True), (1, False)])
def test_a_segment_of_large_pages_is_mapped_by_them(
    machine: Machine, mib: int, by_large_pages: bool
) -> None:
    """Whatever is smaller takes a fault for each of its pages."""
    sh(machine, f"pmadmin create mapped {mib}M --map-address 0x100000000000")
    faults, pages = faults_of(machine, "mapped"), (mib << 20) // 4096
    assert faults < pages // 4 if by_large_pages else faults >= pages
    sh(machine, "pmadmin destroy --yes mapped")


def test_a_disk_is_parted(machine: Machine) -> None:
    sh(machine, "pmadmin create parts 4M")
    disk = sh(machine, "pmadmin ramdisk add parts").stdout.strip()
    sh(machine, f"python3 /root/pm-parted.py {disk} 4096 && blockdev --rereadpt {disk}")
    sh(machine, f"printf inside | dd of={disk}p1 bs=512 conv=sync,fsync status=none")
    assert sh(machine, "tail -c +1048577 /dev/pm/parts | head -c 6").stdout == "inside"
    sh(machine, "pmadmin ramdisk remove parts && pmadmin destroy --yes parts")


def test_changes_are_told_to_who_watches(machine: Machine) -> None:
    sh(machine, "setsid pmadmin --json watch >/tmp/seen 2>&1 </dev/null & echo $! >/tmp/watcher")
    sh(
        machine,
        "until grep -q segments /tmp/seen; do sleep 0.1; done; wc -l </tmp/seen >/tmp/lines",
    )
    sh(machine, "pmadmin create watched 64K")
    sh(machine, "until test $(wc -l </tmp/seen) -gt $(cat /tmp/lines); do sleep 0.1; done")
    sh(machine, "kill $(cat /tmp/watcher) && pmadmin destroy --yes watched")


def test_python_has_the_same_calls(machine: Machine) -> None:
    sh(machine, "cd /root && python3 /root/pm-binding.py")


def test_locks_are_granted_in_order(machine: Machine) -> None:
    sh(machine, "pmadmin create locked 64K --block 512")
    sh(machine, "cd /root && python3 /root/pm-locks.py locked && pmadmin destroy --yes locked")


def test_sysfs_says_what_pmadmin_says(machine: Machine) -> None:
    found = status(machine)
    folder = "/sys/class/misc/pmctl/region"
    for name in ("source", "region_bytes", "free_bytes", "segments", "damaged"):
        assert sh(machine, f"cat {folder}/{name}").stdout.strip() == str(found[name])
    assert sh(machine, "cat '/sys/class/pm/pm!two/bytes'").stdout.strip() == str(1 << 20)
    assert sh(machine, "cat '/sys/class/pm/pm!two/persist'").stdout.strip() == "foc"


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x10]))


def test_damage_is_repaired_or_refused_never_returned(machine: Machine) -> None:
    """One copy of a superblock is repaired; a block's data is an error; all copies are refused.

    All copies of a slot that memory has are restored from there.
    """
    sh(machine, "pmadmin create blocks 1M --block 4096; pmadmin create lost 1M")
    disk = sh(machine, "pmadmin ramdisk add blocks").stdout.strip()
    sh(machine, f"yes | tr -d '\\n' | dd of={disk} bs=4096 count=4 iflag=fullblock oflag=direct")
    segments = {s["name"]: s for s in json.loads(sh(machine, "pmadmin --json list").stdout)}
    nvram, base = machine.files.nvram(machine.config), region_offset(machine)
    header = fmt.parse("rem_pm_super", nvram_bytes(nvram, base + 0x10000 + 0xC0, 192))
    half_bytes, slot_bytes = (fmt.CONST[f"REM_PM_{name}_BYTES"] for name in ("HALF", "SLOT"))
    # All of a slot while the modules have it in memory: a check reports and restores it.
    before = status(machine)["damaged"]
    for copy in header.table_offset:
        for half in (0, half_bytes):
            flip(nvram, base + copy + segments["two"]["slot"] * slot_bytes + half + 100)
    sh(machine, "pmadmin check")
    assert status(machine, check=False)["damaged"] > before
    machine.cut(UNANNOUNCED)
    superblock, slot = base + 0xC0 + 32, segments["lost"]["slot"] * slot_bytes
    flip(nvram, superblock)
    for copy in header.table_offset:
        flip(nvram, base + copy + slot + 100)
    data = nvram_bytes(nvram, base + segments["blocks"]["offset"], 1 << 20)
    flip(nvram, base + segments["blocks"]["offset"] + data.index(b"y" * 4096) + 7)
    machine.boot()
    wait_up(machine)
    load(machine)
    found = status(machine, check=False)
    assert (found["repaired"], found["refused"]) == (1, 1)
    done = sh(machine, "pmadmin create more 1M", check=False)
    assert "damaged" in done.stderr
    assert sh(machine, "head -c 3 /dev/pm/two | wc -c").stdout.strip() == "3"
    disk = sh(machine, "pmadmin ramdisk add blocks").stdout.strip()
    bad = [
        n
        for n in range(4)
        if not sh(
            machine, f"dd if={disk} bs=4096 count=1 skip={n} iflag=direct of=/dev/null", check=False
        ).ok
    ]
    assert len(bad) == 1
    # What a reader has met is listed; so is what a scrub meets. Writing the block heals it.
    assert listed(machine, "blocks") == bad
    assert sh(machine, "pmadmin scrub blocks", check=False).returncode == 1
    done = sh(machine, "pmadmin resize blocks 2M", check=False)
    assert "in use" in done.stderr
    sh(machine, f"dd if=/dev/zero of={disk} bs=4096 count=1 seek={bad[0]} oflag=direct")
    assert listed(machine, "blocks") == []
    sh(machine, "pmadmin scrub blocks && pmadmin ramdisk remove blocks")


def listed(machine: Machine, name: str) -> list[int]:
    """Its blocks that were found damaged."""
    found = sh(machine, f"pmadmin --json blocks {name}", check=False).stdout
    bad: list[int] = json.loads(found)["bad"]
    return bad


def test_a_refused_slot_is_given_up_and_the_region_takes_segments_again(machine: Machine) -> None:
    """Of the damage that the test before did."""
    refused = [s["slot"] for s in json.loads(sh(machine, "pmadmin --json list").stdout)
               if s.get("refused")]  # fmt: skip
    assert len(refused) == 1
    assert not sh(machine, "pmadmin create more 1M", check=False).ok
    assert not sh(machine, f"pmadmin repair {refused[0]}", check=False).ok  # not confirmed
    assert not sh(machine, "pmadmin repair --yes 0", check=False).ok  # it is not refused
    sh(machine, f"pmadmin repair --yes {refused[0]} && pmadmin create more 1M")
    # A block segment of another size, now that there is space again.
    sh(machine, "pmadmin resize blocks 3M && pmadmin scrub blocks")
    assert segment_bytes(machine, "blocks") == 3 << 20
    disk = sh(machine, "pmadmin ramdisk add blocks").stdout.strip()
    got = sh(
        machine, f"dd if={disk} bs=4096 count=4 iflag=direct status=none | tr -d '\\0' | wc -c"
    )
    assert int(got.stdout) == 3 * 4096  # one of four was healed with zeros
    sh(machine, "pmadmin ramdisk remove blocks")
    done = sh(machine, "pmadmin resize blocks 40K", check=False)
    assert done.returncode == 4
    assert segment_bytes(machine, "blocks") == 3 << 20
    sh(machine, "pmadmin destroy --yes more && pmadmin destroy --yes blocks && pmadmin check")


def segment_bytes(machine: Machine, name: str) -> int:
    found = [s for s in json.loads(sh(machine, "pmadmin --json list").stdout) if s["name"] == name]
    size: int = found[0]["bytes"]
    return size


def nvram_bytes(path: Path, offset: int, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(count)


LOST_LINE = "/sys/module/pmcore/parameters/lost_line"


def lost(machine: Machine) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        sh(machine, "pmadmin --json lost", check=False).stdout
    )
    return found


def offset_of(machine: Machine, name: str) -> int:
    found = [s for s in json.loads(sh(machine, "pmadmin --json list").stdout) if s["name"] == name]
    offset: int = found[0]["offset"]
    return offset


def test_a_line_that_media_lost_is_an_error_until_it_is_written(machine: Machine) -> None:
    """Of a raw segment, by its file and by its disk; by the fault point of the modules."""
    sh(machine, "pmadmin create raw 1M && head -c 1M /dev/zero | tr '\\0' x >/dev/pm/raw")
    sh(machine, f"echo {offset_of(machine, 'raw') + 8192 + 64} >{LOST_LINE}")
    done = sh(machine, "dd if=/dev/pm/raw of=/tmp/got bs=64k status=none", check=False)
    assert "Input/output error" in done.stderr
    assert sh(machine, "stat -c %s /tmp/got").stdout.strip() == str(8192 + 64)
    assert lost(machine) == [{"name": "raw", "offset": 8192, "bytes": 512}]
    disk = sh(machine, "pmadmin ramdisk add raw").stdout.strip()
    one = f"dd if={disk} of=/dev/null bs=4096 count=1 iflag=direct status=none"
    assert not sh(machine, f"{one} skip=2", check=False).ok
    sh(machine, f"{one} skip=1 && {one} skip=3")
    sh(machine, f"dd if=/dev/zero of={disk} bs=4096 count=1 seek=2 oflag=direct status=none")
    assert lost(machine) == []
    sh(machine, f"{one} skip=2 && pmadmin ramdisk remove raw && cat /dev/pm/raw >/dev/null")
    sh(machine, "pmadmin destroy --yes raw")


def test_a_block_that_media_lost_is_listed_until_it_is_written(machine: Machine) -> None:
    """The others are read; nothing panics, the background scrub neither."""
    sh(machine, "pmadmin create blk 1M --block 4096")
    disk = sh(machine, "pmadmin ramdisk add blk").stdout.strip()
    sh(machine, f"yes | tr -d '\\n' | dd of={disk} bs=4096 count=4 iflag=fullblock oflag=direct")
    # The first line of one page after the other, until it is one of a block that is in use.
    first = offset_of(machine, "blk")
    sh(
        machine,
        f"for at in $(seq {first} 4096 {first + (1 << 20)});"
        f" do echo $at >{LOST_LINE}; dd if={disk} of=/dev/null bs=4096 count=4 iflag=direct"
        " status=none 2>/dev/null || break; done",
    )
    assert len(listed(machine, "blk")) == 1
    (bad,) = listed(machine, "blk")
    one = f"dd if={disk} of=/dev/null bs=4096 count=1 iflag=direct status=none skip="
    assert [n for n in range(4) if not sh(machine, f"{one}{n}", check=False).ok] == [bad]
    assert sh(machine, "pmadmin scrub blk", check=False).returncode == 1
    sh(machine, f"dd if=/dev/zero of={disk} bs=4096 count=1 seek={bad} oflag=direct status=none")
    assert listed(machine, "blk") == []
    sh(machine, f"{one}{bad} && pmadmin scrub blk && pmadmin ramdisk remove blk")
    sh(machine, f"pmadmin destroy --yes blk && echo {(1 << 64) - 1} >{LOST_LINE}")


@pytest.mark.soak
def test_what_is_exported_comes_back_and_damage_of_it_does_not(machine: Machine) -> None:
    sh(machine, "pmadmin create raw 300000 && head -c 300000 /dev/urandom >/dev/pm/raw")
    sh(machine, "pmadmin create blk 256K --block 512")
    disk = sh(machine, "pmadmin ramdisk add blk").stdout.strip()
    sh(machine, f"dd if=/dev/urandom of={disk} bs=512 count=100 oflag=direct")
    sh(machine, "pmadmin ramdisk remove blk")
    sh(machine, "rm -f /tmp/e.* && pmadmin export raw /tmp/e.raw && pmadmin export blk /tmp/e.blk")
    assert not sh(machine, "pmadmin export raw /tmp/e.raw", check=False).ok  # it is there
    sh(machine, "pmadmin import raw2 /tmp/e.raw && cmp /dev/pm/raw /dev/pm/raw2")
    sh(machine, "pmadmin import blk2 /tmp/e.blk && pmadmin export blk2 /tmp/e.blk2")
    sh(machine, "cmp /tmp/e.blk /tmp/e.blk2")
    for at in (0, 30, 1000, 200000):
        sh(machine, f"python3 /root/pm-flip.py /tmp/e.raw {at}")
        found = sh(machine, "pmadmin import x /tmp/e.raw", check=False).stderr
        assert "not what was exported" in found
        sh(machine, f"python3 /root/pm-flip.py /tmp/e.raw {at}")
    assert "x" not in names(machine)
    sh(machine, "for n in raw raw2 blk blk2; do pmadmin destroy --yes $n; done")


def test_modules_go_and_come_back(machine: Machine) -> None:
    unload(machine)
    load(machine)
    assert "two" in [s.get("name") for s in json.loads(sh(machine, "pmadmin --json list").stdout)]


def test_memory_put_aside_at_boot_serves_too(aside: Machine) -> None:
    sh(aside, "insmod /root/pmcore.ko reserved=pm format=1")
    sh(aside, "pmadmin create held 4M && printf hello >/dev/pm/held && rmmod pmcore")
    sh(aside, "insmod /root/pmcore.ko reserved=pm")
    assert sh(aside, "head -c 5 /dev/pm/held").stdout == "hello"
    assert "reserve_mem pm" in sh(aside, "pmadmin status").stdout


def test_ioctls_without_sense_do_no_harm(aside: Machine) -> None:
    """From a fixed seed; first with rights dropped, which must change nothing at all."""
    sh(aside, "insmod /root/pmbc.ko && insmod /root/pmramd.ko")
    sh(aside, "pmadmin create fuzz 1M && pmadmin create fuzzblk 1M --block 512")
    sh(aside, "chmod 666 /dev/pmctl /dev/pmramd")
    before = sh(aside, "pmadmin --json list").stdout
    sh(aside, "python3 /root/pm-fuzz.py 1 4000 0")
    after = sh(aside, "pmadmin --json list").stdout
    mine = [s for s in json.loads(after) if s["uid"] != 65534]
    assert mine == json.loads(before)  # what a user may make is the user's own
    sh(aside, "python3 /root/pm-fuzz.py 2 4000 1")
    sh(aside, "pmadmin check && rmmod pmramd && rmmod pmbc && rmmod pmcore")
    sh(aside, "insmod /root/pmcore.ko reserved=pm && pmadmin check")


@pytest.mark.soak
def test_page_that_is_made_writable_without_its_lock_is_found() -> None:
    with guest_with_region(f"t-pmgm-{os.getpid()}") as machine:
        install(machine, mutants=True)
        load(machine, "format=1")
        sh(machine, "echo mkwrite-unlocked >/sys/module/pmcore/parameters/mutant")
        with pytest.raises(BrokenError) as broken:
            check_sync_behind_a_held_store(machine)
        assert broken.value.verdict == "promises-broken"

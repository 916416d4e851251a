# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs of the modules' own code (pm/kernel), and of the core as they use it, in a guest.

Goal: the checks of what the modules add to the core can fail: what a sync writes back, who excludes
whom, when a disk may go, what a format takes for blank, and that damage to all copies of a slot is
repaired from memory. Method: modules with all planted bugs (pm/mutants). Each check passes with
none of them on, and finds its bug by the verdict that the bug's patch names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab import format as fmt
from lab.machine import Machine
from lab.setup.pm import series
from lab.testbed.pm_guest import (
    cut,
    install,
    kernel_complaints,
    load,
    machine_with_region,
    region_offset,
    sh,
    status,
    unload,
    wait_up,
)
from lab.verdict import BrokenError

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

PROMISE = "guest-modules"
PROFILE = "wsp-c5528"
LINES = 1024
LOST_LINE = "/sys/module/pmcore/parameters/lost_line"
MUTANT = "/sys/module/pmcore/parameters/mutant"
# Each time one store to the same page, by the same mapping.
SYNCS = """
import mmap, os
def written():
    with open("/sys/class/misc/pmctl/region/written_back_bytes") as file:
        return int(file.read())
memory = mmap.mmap(os.open("/dev/pm/synced", os.O_RDWR), 65536)
for at in (5000, 5001):
    memory[at] = 1
    before = written()
    memory.flush()
    print(written() - before)
"""
STORE = """
import mmap, os
for name in ("loose", "tight"):
    file = os.open("/dev/pm/" + name, os.O_RDWR)
    memory = mmap.mmap(file, 65536)
    for at in range(0, 65536, 64):
        memory[at : at + 8] = b"durable!"
    if name == "tight":
        os.fsync(file)
"""


@contextmanager
def guest(purpose: str, cpus: int = 2, caches: str | None = None) -> Iterator[Machine]:
    """A machine whose modules have every planted bug, and a new region."""
    with machine_with_region(f"t-{purpose}-{os.getpid()}", cpus=cpus, caches=caches) as machine:
        machine.boot()
        wait_up(machine)
        install(machine, mutants=True)
        load(machine, "format=1")
        yield machine


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest("pmm") as made:
        yield made


@contextmanager
def planted(machine: Machine, mutant: str) -> Iterator[None]:
    """Within, the bug is on; with no name none is."""
    sh(machine, f"echo {mutant} >{MUTANT}")
    try:
        yield
    finally:
        sh(machine, f"echo >{MUTANT}")


def segments(machine: Machine) -> dict[str, dict[str, Any]]:
    found = json.loads(sh(machine, "pmadmin --json list", check=False).stdout)
    return {segment["name"]: segment for segment in found if "name" in segment}


def check_store_after_a_sync(machine: Machine, mutant: str) -> None:
    sh(machine, "pmadmin create synced 64K")
    with planted(machine, mutant):
        counts = sh(machine, f"python3 -c '{SYNCS}'").stdout.split()
    sh(machine, "pmadmin destroy --yes synced")
    if counts != ["4096", "4096"]:
        raise BrokenError("store-missed", f"two stores, and syncs of {counts} bytes")


def check_writer(machine: Machine, mutant: str) -> None:
    sh(machine, "pmadmin create raw 1M && pmadmin ramdisk add raw && head -c 1 /dev/pm/raw")
    with planted(machine, mutant):
        done = sh(machine, ": 1<>/dev/pm/raw", check=False)
    sh(machine, "pmadmin ramdisk remove raw && : 1<>/dev/pm/raw && pmadmin destroy --yes raw")
    if done.ok:
        raise BrokenError("written-beside", "a disk was opened for writing beside it")
    assert "busy" in done.stderr


def check_openers(machine: Machine, mutant: str) -> None:
    sh(machine, "pmadmin create raw 1M")
    with planted(machine, mutant):
        done = sh(machine, "python3 /root/pm-openers.py raw 20", check=False)
    sh(machine, "pmadmin destroy --yes raw")
    if "removed that was open" in done.stderr:
        raise BrokenError("removed-while-open", done.stderr)
    assert done.ok, done.stderr


def check_format(machine: Machine, mutant: str) -> None:
    """A file system where a region is to be made: refused, and as before."""
    unload(machine)
    zero = "dd if=/dev/zero of=/dev/pmem0 bs=1M status=none 2>/dev/null"
    sh(machine, f"{zero}; mkfs.ext4 -q /dev/pmem0 && sync")
    look = "head -c 4M /dev/pmem0 | md5sum"
    before = sh(machine, look).stdout
    words = f"device=/dev/pmem0 format=1 mutant={mutant}"
    done = sh(machine, f"insmod /root/pmcore.ko {words}", check=False)
    if done.ok:
        sh(machine, "rmmod pmcore")
    same = sh(machine, look).stdout == before
    load(machine, "format=1", "force=1")
    if done.ok or not same:
        raise BrokenError("overwritten", "format=1 made a region over a file system")
    assert segments(machine) == {}


def lost(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sh(machine, "pmadmin --json lost", check=False).stdout)
    return found


def check_lost_line(machine: Machine, mutant: str) -> None:
    """A load from it faults. By the file, which holds nothing that the next check needs."""
    sh(machine, "dmesg -C; pmadmin create raw 64K && head -c 64K /dev/zero >/dev/pm/raw")
    at = segments(machine)["raw"]["offset"] + 8192 + 64
    with planted(machine, mutant):
        sh(machine, f"echo {at} >{LOST_LINE}")
        done = sh(machine, "cat /dev/pm/raw >/dev/null", check=False)
        listed = lost(machine)
    sh(machine, "dd if=/dev/zero of=/dev/pm/raw bs=512 count=1 seek=16 conv=notrunc status=none")
    left = lost(machine)
    sh(machine, "pmadmin destroy --yes raw")
    complaints = kernel_complaints(machine)
    if complaints:
        raise BrokenError("crashed", complaints)
    assert "Input/output error" in done.stderr
    assert listed == [{"name": "raw", "offset": 8192, "bytes": 512}]
    assert left == []


def check_poison(machine: Machine, mutant: str) -> None:
    """What the device's driver has listed is listed, and made good when it is written."""
    driver = "/sys/block/pmem0/badblocks"
    sh(machine, "pmadmin create raw 64K")
    sector = segments(machine)["raw"]["offset"] // 512 + 16
    unload(machine)
    sh(machine, f"echo {sector} 3 >{driver}")
    load(machine, f"mutant={mutant}")
    listed = lost(machine)
    # Not the third one: half a sector does not make it good.
    half = "bs=1280 count=1 seek=8192 oflag=seek_bytes conv=notrunc"
    sh(machine, f"dd if=/dev/zero of=/dev/pm/raw {half} status=none")
    left, by_driver = lost(machine), sh(machine, f"cat {driver}").stdout.split()
    sh(machine, "dd if=/dev/zero of=/dev/pm/raw bs=512 seek=18 count=1 conv=notrunc status=none")
    at_end = [lost(machine), sh(machine, f"cat {driver}").stdout.split()]
    sh(machine, f"echo >{MUTANT}; pmadmin destroy --yes raw")
    if listed != [{"name": "raw", "offset": 8192, "bytes": 1536}]:
        raise BrokenError("poison-unlisted", f"listed: {listed}")
    assert left == [{"name": "raw", "offset": 9216, "bytes": 512}]
    if by_driver != [str(sector + 2), "1"] or at_end[1]:
        raise BrokenError("poison-left", f"the driver's list: {by_driver}, {at_end[1]}")
    assert at_end[0] == []


def damage_all_copies(machine: Machine, slot: int) -> None:
    """Flip a byte of each half of each copy of a slot in the NVRAM file, which is shared."""
    base = region_offset(machine)
    with machine.files.nvram(machine.config).open("r+b") as nvram:
        nvram.seek(base + 0x10000 + 0xC0)
        header = fmt.parse("rem_pm_super", nvram.read(192))
        for copy in header.table_offset:
            for half in (0, fmt.CONST["REM_PM_HALF_BYTES"]):
                at = base + copy + slot * fmt.CONST["REM_PM_SLOT_BYTES"] + half + 100
                nvram.seek(at)
                byte = nvram.read(1)[0]
                nvram.seek(at)
                nvram.write(bytes([byte ^ 0x10]))


def cut_and_load(machine: Machine) -> dict[str, dict[str, Any]]:
    cut(machine)
    load(machine)
    return segments(machine)


def check_restored(machine: Machine, mutant: str) -> None:
    """By a check, by the next change of the slot, and by one behind a check: each then survives."""
    sh(machine, "pmadmin create kept 1M && printf hello >/dev/pm/kept")
    slot = segments(machine)["kept"]["slot"]
    for act, mib in (("check", 1), ("resize kept 2M", 2), ("check && pmadmin resize kept 3M", 3)):
        before = status(machine)["damaged"]
        damage_all_copies(machine, slot)
        with planted(machine, mutant):
            done = sh(machine, f"pmadmin {act}", check=False)
            damaged = status(machine, check=False)["damaged"] - before
        found = cut_and_load(machine)
        if "kept" not in found or status(machine, check=False)["refused"]:
            raise BrokenError("not-restored", f"{act}: {done.stderr or done.stdout}")
        assert done.ok, done.stderr
        assert damaged, f"{act}: damage is not reported"
        assert found["kept"]["bytes"] == mib << 20
        assert sh(machine, "head -c 5 /dev/pm/kept").stdout == "hello"
    sh(machine, "pmadmin destroy --yes kept && pmadmin check")


# The last one leaves a region with a refused slot where its bug is on.
CHECKS: dict[str, Callable[[Machine, str], None]] = {
    "clean-without-unmap": check_store_after_a_sync,
    "writer-beside-disk": check_writer,
    "remove-while-open": check_openers,
    "fetch-by-memcpy": check_lost_line,
    "poison-unlisted": check_poison,
    "poison-not-cleared": check_poison,
    "format-forces": check_format,
    "restore-nothing": check_restored,
}


def check_sync(machine: Machine, mutant: str) -> None:
    """Where caches are volatile, what was synced is there after a cut, and other stores are not."""
    sh(machine, "pmadmin create loose 64K && pmadmin create tight 64K")
    with planted(machine, mutant):
        sh(machine, f"python3 -c '{STORE}'")
    cut_and_load(machine)
    count = "grep -ao 'durable!' /dev/pm/{} | wc -l"
    loose, tight = (int(sh(machine, count.format(name)).stdout) for name in ("loose", "tight"))
    sh(machine, "pmadmin destroy --yes loose && pmadmin destroy --yes tight")
    if tight != LINES:
        raise BrokenError("sync-lost", f"{tight} of {LINES} lines that were synced")
    assert loose < LINES, "nothing was lost: the caches are not volatile"


def must_be_found(name: str, check: Callable[[Machine, str], None], machine: Machine) -> None:
    expected = {one.verdict for one in series()[name].violates if one.promise == PROMISE}
    with pytest.raises(BrokenError) as broken:
        check(machine, name)
    assert broken.value.verdict in expected


def test_each_bug_of_the_modules_has_a_check() -> None:
    of_modules = {
        patch.name
        for patch in series().mutants
        if any(one.promise == PROMISE for one in patch.violates)
    }
    assert of_modules == {*CHECKS, "sync-nothing"}


@pytest.mark.in_turn("planted")
@pytest.mark.parametrize("name", CHECKS)
def test_without_a_bug_the_check_passes(machine: Machine, name: str) -> None:
    CHECKS[name](machine, "")


@pytest.mark.in_turn("planted")
@pytest.mark.parametrize("name", CHECKS)
def test_bug_is_found(machine: Machine, name: str) -> None:
    must_be_found(name, CHECKS[name], machine)


@pytest.mark.in_turn
def test_sync_that_writes_nothing_back_is_found() -> None:
    with guest("pmms", cpus=1, caches=PROFILE) as machine:
        check_sync(machine, "")
        must_be_found("sync-nothing", check_sync, machine)

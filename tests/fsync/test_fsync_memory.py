# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: an fsync that ends in memory is kept like one that ended on the disk: over a power failure
without a Stop, a panic, and an image that is refused; and what is in force ends in order.

Method: a witness in the guest changes files in every way there is, and the host remembers each
acknowledgement; the witness's own model says what must be there afterwards. The disk alone does not
have it, or the test would show nothing. Negative proofs: tests/fsync/test_fsync_planted.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lab import format as fmt
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.qemu import NVRAM_PHYS
from lab.testbed import fsync_guest
from lab.testbed.cycle import cut_and_resume
from lab.testbed.fsync_guest import (
    DRAIN_S,
    LATE_S,
    SYSFS,
    Acks,
    boot_without_registry,
    counts,
    drain,
    replay,
    state,
    witness,
)
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import install as install_pm
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.testbed.pm_guest import load as load_pm
from lab.testbed.promise import end_promise
from lab.testbed.waiting import wait_until
from tests.support.claims import machine_name

IN_TURN = pytest.mark.in_turn
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

STEPS = 600
WRITE_BACK_LIMIT_S = 120.0
CHARGE_LIMIT_S = 30.0
SIX_PAGES = 24_000
WRITE = f"""
import os
fd = os.open("{{path}}", os.O_RDWR | os.O_CREAT, 0o640)
for letter in (b"a", b"b"):
    os.pwrite(fd, letter * {SIX_PAGES}, 0)
    os.fsync(fd)
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with fsync_guest.fsync_guest(machine_name("fsync")) as made:
        yield made


def write(machine: Machine, path: str) -> None:
    sh(machine, f"python3 -c '{WRITE.format(path=path)}'")


def write_twice(machine: Machine, path: str) -> None:
    """After the first fsync of a file the file system has its name; the second ends in memory."""
    before = counts(machine)
    write(machine, path)
    after = counts(machine)
    # More where the disk is a file, whose own fsyncs end in memory, too.
    assert after["in_memory"] > before["in_memory"]
    assert after["pages"] >= before["pages"] + 6


def letters(machine: Machine, path: str) -> str:
    code = f'import collections; print(dict(collections.Counter(open("{path}").read())))'
    return sh(machine, f"python3 -c '{code}'").stdout.strip()


@pytest.mark.parametrize(
    "lose", ["lose_power", "panic", pytest.param("refuse_image", marks=IN_TURN)]
)
def test_what_was_acknowledged_is_found_again(machine: Machine, lose: str) -> None:
    assert state(machine) == "memory"
    with witness(machine, f"/root/{lose}", seed=lose) as seen:
        seen.wait(STEPS)
        before = counts(machine)
        seen.wait(STEPS // 4)
        after = counts(machine)
        assert after["in_memory"] - before["in_memory"] > after["by_disk"] - before["by_disk"]
        write(machine, f"/root/{lose}-b")
        getattr(fsync_guest, lose)(machine)
    assert state(machine) == "found"
    # The disk has its name.
    assert letters(machine, f"/root/{lose}-b") == str({})
    report = replay(machine)
    assert report["pages"] >= 6 and not report["damaged"] and not report["failed"]
    assert seen.check() == []
    assert letters(machine, f"/root/{lose}-b") == str({"b": SIX_PAGES})
    assert state(machine) == "memory"
    assert not kernel_complaints(machine)


def test_over_a_stop_nothing_has_to_be_replayed(machine: Machine) -> None:
    with witness(machine, "/root/stop", seed="stop") as seen:
        seen.wait(STEPS)
        cut_and_resume(machine)
        seen.wait(STEPS)
        cut_and_resume(machine)
        seen.wait(STEPS)
    assert state(machine) == "memory"


def lose_promise(machine: Machine) -> None:
    end_promise(machine)
    assert state(machine) == "waiting"


def lose_charge(machine: Machine) -> None:
    """The supply has less than a Stop takes."""
    machine.supply.set_charge(fmt.Charge.NONE)
    wait_until(lambda: state(machine) == "waiting", "the promise has ended", CHARGE_LIMIT_S)


def lose_health(machine: Machine) -> None:
    """User space has heard that the supply is not well."""
    sh(machine, "echo 'rack 600 bad a battery is empty' >/sys/kernel/remanence/health")
    assert state(machine) == "waiting"


def choose_disk(machine: Machine) -> None:
    sh(machine, f"echo disk >{SYSFS}/state")
    assert state(machine) == "disk"


def exclude(machine: Machine) -> None:
    device = sh(machine, "mountpoint -d /").stdout.strip()
    sh(machine, f"echo +{device} >{SYSFS}/excluded")
    assert sh(machine, f"cat {SYSFS}/excluded").stdout.strip() == device


@pytest.mark.parametrize(
    "leave",
    [
        lose_promise,
        lose_charge,
        *(pytest.param(one, marks=IN_TURN) for one in (lose_health, choose_disk, exclude)),
    ],
)
def test_when_it_ceases_everything_is_on_the_disk(
    machine: Machine, leave: Callable[[Machine], None]
) -> None:
    with witness(machine, f"/root/{leave.__name__}", seed=leave.__name__) as seen:
        seen.wait(STEPS // 2)
        leave(machine)
        seen.wait(STEPS // 8)  # from now on each waits for the disk
        assert counts(machine)["pages"] == 0
        if leave is not exclude:
            assert f"remanence: fsync: {state(machine)}\n" in sh(machine, "dmesg").stdout
        machine.cut(UNANNOUNCED)
        machine.guest.close()
    machine.supply.set_charge(fmt.Charge.FULL)
    boot_without_registry(machine)
    assert seen.check() == []
    assert state(machine) == "memory"


def test_charge_that_is_back_is_a_promise_again(machine: Machine) -> None:
    lose_charge(machine)
    machine.supply.set_charge(fmt.Charge.FULL)
    wait_until(lambda: state(machine) == "memory", "it is in force again", CHARGE_LIMIT_S)
    write_twice(machine, "/root/charged")


@IN_TURN
def test_bound_that_no_supply_holds_for_is_never_in_force() -> None:
    short = "remanence.hold_up_us=100"  # the last one counts
    with fsync_guest.fsync_guest(machine_name("fsync-short"), short) as machine:
        assert state(machine) == "waiting"
        before = counts(machine)
        write(machine, "/root/short")
        after = counts(machine)
        assert (after["in_memory"], after["pages"]) == (before["in_memory"], 0)
        machine.cut(UNANNOUNCED)
        machine.guest.close()
        boot_without_registry(machine)
        assert letters(machine, "/root/short") == str({"b": SIX_PAGES})


def make_image(machine: Machine, name: str) -> None:
    make = f"dd if=/dev/zero of=/root/{name} bs=1M count=16 && mkfs.ext4 -q /root/{name}"
    sh(machine, f"mkdir -p /mnt/{name} && {make} && sync")


def mount(machine: Machine, name: str) -> None:
    """In two steps: `mount -o loop` has the device open, so that the kernel refuses to mount it."""
    sh(machine, f"mount $(losetup -f --show /root/{name}) /mnt/{name}")


def unmount(machine: Machine, name: str) -> None:
    sh(machine, f"umount /mnt/{name} && losetup -D && e2fsck -fn /root/{name}")


def test_unmounted_file_system_has_everything(machine: Machine) -> None:
    make_image(machine, "image")
    mount(machine, "image")
    write_twice(machine, "/mnt/image/file")
    unmount(machine, "image")
    mount(machine, "image")
    assert letters(machine, "/mnt/image/file") == str({"b": SIX_PAGES})
    unmount(machine, "image")
    assert not kernel_complaints(machine)


def test_pages_wait_for_their_file_system(machine: Machine) -> None:
    """A file system that is not mounted is named, and its pages are kept until it is."""
    make_image(machine, "other")
    mount(machine, "other")
    write_twice(machine, "/mnt/other/file")
    fsync_guest.lose_power(machine)
    report = json.loads(sh(machine, "rem-replay --json", check=False).stdout)
    assert [line.rpartition(": ")[2] for line in report["failed"]] == ["it is not mounted"]
    assert state(machine) == "found"
    fsync_guest.panic(machine)  # and they survive another crash
    # The image is a file that was written already; it is not written again over its own recovery.
    mount(machine, "other")
    assert not replay(machine)["failed"]
    assert letters(machine, "/mnt/other/file") == str({"b": SIX_PAGES})
    unmount(machine, "other")


def test_files_keep_owner_mode_and_time_and_removed_ones_stay_removed(machine: Machine) -> None:
    write_twice(machine, "/root/mine")
    sh(machine, "chown 7:8 /root/mine && chmod 4711 /root/mine && sync /root/mine")
    sh(machine, "python3 -c 'import os; f = os.open(\"/root/mine\", os.O_RDWR);"
       " os.pwrite(f, b\"c\" * 100, 0); os.fsync(f)'")  # fmt: skip
    seen = sh(machine, "stat -c '%u %g %a %Y' /root/mine").stdout
    write_twice(machine, "/root/removed")
    sh(machine, "rm /root/removed && sync -f /root")
    fsync_guest.lose_power(machine)
    assert not replay(machine)["failed"]
    assert sh(machine, "stat -c '%u %g %a %Y' /root/mine").stdout == seen
    assert not sh(machine, "test -e /root/removed", check=False).ok


MAIL_BYTES = 800_000
MAIL = f"""
import os
fd = os.open("/root/mail", os.O_RDWR | os.O_CREAT, 0o640)
os.write(fd, bytes({MAIL_BYTES}))
os.fsync(fd)
"""


def sectors_written(machine: Machine) -> int:
    return int(sh(machine, "cat /sys/block/vda/stat").stdout.split()[6])


@pytest.mark.parametrize("removed", [True, False])
def test_file_that_is_removed_takes_its_pages_along(machine: Machine, removed: bool) -> None:
    sh(machine, "sync")  # what other tests have left is not counted
    drain(machine)
    before, begin = counts(machine)["pages"], sectors_written(machine)
    sh(machine, f"python3 -c '{MAIL}'")
    pages = -(-MAIL_BYTES // 4096)
    assert counts(machine)["pages"] >= before + pages
    if removed:
        sh(machine, "rm /root/mail")
    # A crash may bring it back until the removal is on the disk.
    assert counts(machine)["pages"] >= before + pages
    drain(machine)
    assert counts(machine)["pages"] < pages
    written_bytes = (sectors_written(machine) - begin) * 512
    assert (written_bytes < MAIL_BYTES) == removed


UNSYNCED = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"c" * 8192, 0)
"""
OTHER_BYTES = 4 << 20


def test_periodic_write_back_leaves_a_file_whose_changes_are_registered(machine: Machine) -> None:
    """A file without an fsync is written meanwhile, and tells that periodic write-back ran; so is
    one whose next fsync would be the file system's."""
    for name in ("left", "changed"):
        write_twice(machine, f"/root/{name}")
        sh(machine, f"python3 -c '{UNSYNCED}' /root/{name}")
    sh(machine, "chmod 600 /root/changed")
    begin = sectors_written(machine)
    try:
        fsync_guest.set_write_back_age(machine, fsync_guest.SOON_S)
        sh(machine, f"head -c {OTHER_BYTES} /dev/urandom >/root/other-file")
        wait_until(
            lambda: sectors_written(machine) - begin >= OTHER_BYTES // 512,
            "periodic write-back has run",
            WRITE_BACK_LIMIT_S,
        )
        sh(machine, "sync /root/other-file")  # commits what the journal has of all
        machine.cut(UNANNOUNCED)
        machine.guest.close()
    finally:
        boot_without_registry(machine)
    assert letters(machine, "/root/left") == str({})  # its name is all that the disk ever got
    assert letters(machine, "/root/changed") == str({"c": 8192, "b": SIX_PAGES - 8192})


MEMORY_IS_SHORT = "echo 2 >/proc/sys/vm/drop_caches"  # asks each cache for what it can give
TIME_IS_UP = f"echo 1 >{DRAIN_S}"


@pytest.mark.parametrize("when", [MEMORY_IS_SHORT, TIME_IS_UP], ids=("memory", "time"))
def test_pages_go_to_the_disk_when(machine: Machine, when: str) -> None:
    write_twice(machine, "/root/short")
    assert counts(machine)["pages"] >= 6
    sh(machine, when)
    wait_until(
        lambda: counts(machine)["pages"] < 6, "registered pages are drained", WRITE_BACK_LIMIT_S
    )
    sh(machine, f"echo {LATE_S} >{DRAIN_S}")
    assert not kernel_complaints(machine)


FILES = """
import os, sys
for n in range(int(sys.argv[1])):
    fd = os.open("/root/file-%d" % n, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x", 0)
    os.fsync(fd)
    os.close(fd)
"""


def test_files_do_not_run_out(machine: Machine) -> None:
    """Each has a record in the registry, of which there are fewer."""
    drain(machine)
    before = counts(machine)
    many = before["files_max"] * 2
    assert before["pages_max"] > many
    sh(machine, f"python3 -c '{FILES}' {many}")
    assert counts(machine)["drains"] > before["drains"]
    write_twice(machine, "/root/after")
    sh(machine, "rm /root/file-*")


MANY_FILES, DRAINS = 64, 2  # of one drain(), of a file system in use
MANY = f"""
import os, itertools
files = [os.open("/root/many-%d" % n, os.O_RDWR | os.O_CREAT) for n in range({MANY_FILES})]
for n in itertools.count():
    for fd in files:
        os.pwrite(fd, b"%d" % n, 0)
        os.fsync(fd)
    print("ack many", n, flush=True)
"""


def test_file_system_is_drained_once_while_programs_go_on(machine: Machine) -> None:
    sh(machine, f"cat >/root/many.py <<'EOF'\n{MANY}EOF")
    rounds = Acks(machine, "python3 /root/many.py")
    try:
        rounds.wait(2)
        before = counts(machine)["drains"]
        drain(machine)
        assert counts(machine)["drains"] == before + DRAINS
        rounds.wait(2)
    finally:
        rounds.close()


DATABASE = """
import sqlite3, sys
mode, path = sys.argv[1:]
base = sqlite3.connect(path, isolation_level=None)
base.execute("pragma journal_mode=" + mode)
base.execute("pragma synchronous=extra")  # also syncs the removal of a journal
base.execute("create table if not exists t(n integer primary key, text text)")
n = 0
while True:
    n += 1
    base.execute("begin")
    base.execute("insert into t values(?, ?)", (n, "x" * (n * 37 % 900)))
    base.execute("update t set text = 'y' where n = ?", (n * 31 % n + 1,))
    base.execute("commit")
    print("ack", mode, n, flush=True)
"""
ROWS = 150


@pytest.mark.parametrize(
    "mode",
    [
        "wal",
        *(pytest.param(mode, marks=IN_TURN) for mode in ("delete", "truncate")),
        pytest.param("persist", marks=IN_TURN),
    ],
)
def test_database_keeps_what_it_has_committed(machine: Machine, mode: str) -> None:
    sh(machine, f"cat >/root/database.py <<'EOF'\n{DATABASE}EOF")
    path = f"/root/{mode}.db"
    rows = Acks(machine, f"python3 /root/database.py {mode} {path}")
    try:
        rows.wait(ROWS)
        fsync_guest.panic(machine)
    finally:
        rows.close()
    assert not replay(machine)["failed"]
    found = sh(machine, f"sqlite3 {path} 'pragma integrity_check; select count(*), max(n) from t'")
    assert found.stdout.splitlines()[0] == "ok"
    count, last = map(int, found.stdout.splitlines()[1].split("|"))
    assert count == last >= rows.acks[mode] >= ROWS


def test_damaged_page_is_not_written(machine: Machine) -> None:
    write_twice(machine, "/root/damaged")
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    flip_a_bit_of_the_first_page(machine)
    machine.boot()
    fsync_guest.wait_up(machine)
    report = replay(machine, check=False)
    assert report["damaged"] == 1
    assert state(machine) == "found"
    assert replay(machine, "--discard", check=False)["damaged"] == 1
    assert state(machine) == "memory"
    # No disk has ever had the first page.
    assert letters(machine, "/root/damaged") == str({"\0": 4096, "b": SIX_PAGES - 4096})


@IN_TURN
def test_persistent_memory_in_its_place_is_left_alone() -> None:
    """The parameter is added to a machine whose region was at the end of NVRAM before."""
    config = make_config(machine_name("fsync-pm"))
    before = replace(config, cmdline_extra="pm=32M")
    with Machine.create(before, destroy_on_exit=True) as machine:
        machine.boot()
        fsync_guest.wait_up(machine)
        install_pm(machine)
        load_pm(machine, "format=1", "force=1", source="")
        assert state(machine) == "off: remanence.persist= was not given"
        machine.cut(UNANNOUNCED)
        machine.guest.close()
        path = machine.files.nvram(machine.config)
        seen = path.read_bytes()[-fsync_guest.REGISTRY_BYTES :]
        machine.config = replace(config, cmdline_extra=f"pm=32M {fsync_guest.REGISTRY}")
        machine.boot()
        fsync_guest.wait_up(machine)
        assert state(machine) == "off: a region of persistent memory (pm=) is in its place"
        machine.cut(UNANNOUNCED)
        machine.guest.close()
        assert path.read_bytes()[-fsync_guest.REGISTRY_BYTES :] == seen


def flip_a_bit_of_the_first_page(machine: Machine) -> None:
    """Of a page where the page cache has it, before the loader copies it."""
    size = fmt.size_of("rem_registry_page")
    with machine.files.nvram(machine.config).open("r+b") as nvram:
        nvram.seek(machine.config.nvram_bytes - fsync_guest.REGISTRY_BYTES)
        registry = nvram.read()
        head = fmt.parse("rem_registry", registry[-4096:][: fmt.size_of("rem_registry")])
        start = head.files * 2 * fmt.size_of("rem_registry_file")
        for at in range(start, start + head.pages * size, size):
            page = fmt.parse("rem_registry_page", registry[at : at + size])
            nvram.seek(max(page.phys - NVRAM_PHYS, 0))
            if page.id and page.index == 0 and nvram.read(4096) == b"b" * 4096:
                nvram.seek(page.phys - NVRAM_PHYS + 4095)
                nvram.write(b"a")
                return
    raise AssertionError("the page is not registered")

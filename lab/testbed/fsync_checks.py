# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What must hold where fsync ends in memory: each check raises BrokenError by its verdict.

Each begins with a machine that is up and in force, and ends with one that is up. They use files of
their own, and nothing goes to the disk by itself.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lab.errors import HangError, RemError
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed import fsync_guest as guest
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import sh
from lab.testbed.promise import end_promise
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

BYTES = 24_000
PRELUDE = f"""
import mmap, os, sys
path, count = sys.argv[1], {BYTES}
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
def put(letter, at=0, bytes=count):
    os.pwrite(fd, letter * bytes, at)
"""
# After the first fsync of a file the file system has its name, and only memory has its data.
KNOWN = PRELUDE + 'put(b"a"); os.fsync(fd)\n'
SYNCED = KNOWN + 'put(b"b"); os.fsync(fd)\n'


def program(machine: Machine, code: str, path: str) -> None:
    machine.guest.run(["python3", "-c", code, path])


def content(machine: Machine, path: str) -> str:
    """As runs of letters: `a24000`, or `-` if it is not there."""
    code = (
        "import itertools, os, sys; p = sys.argv[1];"
        "d = open(p, 'rb').read().replace(b'\\0', b'0').decode() if os.path.exists(p) else None;"
        "print('-' if d is None else"
        " ' '.join(f'{k}{len(list(g))}' for k, g in itertools.groupby(d)))"
    )
    return machine.guest.run(["python3", "-c", code, path]).stdout.strip()


def expect(machine: Machine, path: str, wanted: str, verdict: str = "promises-broken") -> None:
    found = content(machine, path)
    if found != wanted:
        raise BrokenError(verdict, f"{path} is {found or 'empty'}, not {wanted}")


def replay(machine: Machine) -> None:
    report = guest.replay(machine, check=False)
    if report["damaged"] or report["failed"]:
        raise BrokenError("promises-broken", f"not all is written: {json.dumps(report)}")


def lose_and_replay(machine: Machine, **boot: Any) -> None:
    guest.lose_power(machine, **boot)
    replay(machine)


def synced_pages_are_found(machine: Machine, path: str, **boot: Any) -> None:
    # A letter of its own: slots of the registry may still have what an earlier check left there.
    letter = chr(ord("c") + zlib.crc32(path.encode()) % 24)
    program(machine, KNOWN + f'put(b"{letter}"); os.fsync(fd)\n', path)
    lose_and_replay(machine, **boot)
    expect(machine, path, f"{letter}{BYTES}")


def appended_pages_are_found(machine: Machine, path: str) -> None:
    more = (
        'put(b"c", count, 5000); os.fdatasync(fd)\nput(b"d", count + 5000, 1); os.fdatasync(fd)\n'
    )
    program(machine, SYNCED + more, path)
    lose_and_replay(machine)
    expect(machine, path, f"b{BYTES} c5000 d1")


def mapped_stores_are_found(machine: Machine, path: str) -> None:
    stores = (
        "m = mmap.mmap(fd, count)\n"
        "for letter in (b'c', b'd', b'e'):\n"
        "    m[:4096] = letter * 4096; m.flush(0, 4096)\n"
    )
    program(machine, KNOWN + stores, path)
    lose_and_replay(machine)
    expect(machine, path, f"e4096 a{BYTES - 4096}")


def what_is_behind_the_end_is_no_damage(machine: Machine, path: str) -> None:
    """A file system zeroes it in a file's last page whenever it writes that."""
    stores = (
        "put(b'c', 0, 5000); os.fsync(fd)\n"
        "m = mmap.mmap(fd, 0); m[4096:4097] = b'd'\n"
        "import ctypes; start = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "ctypes.memset(start + 6000, 122, 9)\n"
        "os.fsync(fd); os.sync()\n"
    )
    program(machine, PRELUDE + stores, path)
    lose_and_replay(machine)
    expect(machine, path, "c4096 d1 c903")


def later_changes_do_no_harm(machine: Machine, path: str) -> None:
    """A page that changes after its fsync is not damaged; volatile caches may have the change."""
    program(machine, SYNCED + 'put(b"c", 0, 100)\n', path)
    lose_and_replay(machine)
    wanted = f"c100 b{BYTES - 100}"
    if machine.config.caches and content(machine, path) == f"b{BYTES}":
        return
    expect(machine, path, wanted)


def new_names_are_found(machine: Machine, path: str) -> None:
    program(machine, KNOWN, path)
    lose_and_replay(machine)
    expect(machine, path, f"a{BYTES}")


def truncated_file_stays_so(machine: Machine, path: str) -> None:
    """What is written after a truncation is on the disk, without an fsync of this file."""
    program(machine, SYNCED + 'os.ftruncate(fd, 0); put(b"c")\nos.sync()\n', path)
    lose_and_replay(machine)
    expect(machine, path, f"c{BYTES}", "undone")


def file_truncated_by_its_name_stays_so(machine: Machine, path: str) -> None:
    program(machine, SYNCED + 'os.truncate(path, 0); put(b"c")\nos.sync()\n', path)
    lose_and_replay(machine)
    expect(machine, path, f"c{BYTES}", "undone")


def direct_write_stays(machine: Machine, path: str) -> None:
    write = (
        "direct = os.open(path, os.O_RDWR | os.O_DIRECT)\n"
        "page = mmap.mmap(-1, 4096); page[:] = b'c' * 4096\n"
        "os.pwrite(direct, page, 4096); os.sync()\n"
    )
    program(machine, SYNCED + write, path)
    lose_and_replay(machine)
    expect(machine, path, f"b4096 c4096 b{BYTES - 8192}", "undone")


# A journal commits by itself after five seconds, and would have what is to be found.
LATE_COMMIT = "mount -o remount,commit=300 /"


def attributes_are_found(machine: Machine, path: str) -> None:
    """Those that were set before data was written, which hides them from a file's times."""
    sh(machine, LATE_COMMIT)
    more = 'os.fchmod(fd, 0o4711); os.fchown(fd, 7, 8)\nput(b"b"); os.fsync(fd)\n'
    program(machine, SYNCED + more, path)
    lose_and_replay(machine)
    expect(machine, path, f"b{BYTES}")
    found = sh(machine, f"stat -c '%u %g %a' {path}").stdout.strip()
    if found != "7 8 711":  # a change of owner ends set-user-id
        raise BrokenError("promises-broken", f"{path}: owner and mode are {found}")


def size_without_pages_is_found(machine: Machine, path: str) -> None:
    sh(machine, LATE_COMMIT)
    program(machine, KNOWN + "os.posix_fallocate(fd, 0, 2 * count); os.fdatasync(fd)\n", path)
    lose_and_replay(machine)
    expect(machine, path, f"a{BYTES} 0{BYTES}")


IDLE_S = 11.5  # after ten seconds a file is let go, which is looked for each second


def idle_files_lose_nothing(machine: Machine, path: str) -> None:
    """An fsync that comes when its file is about to be let go, which has nothing registered."""
    wait = f"os.fsync(fd); import time; time.sleep({IDLE_S})\n"
    program(machine, f'{PRELUDE}{wait}put(b"b"); os.fsync(fd)\n', path)
    time.sleep(5)  # what was about to be done is done
    lose_and_replay(machine)
    expect(machine, path, f"b{BYTES}")


RANGE = """
import ctypes
put(b"b", count)
if ctypes.CDLL(None).sync_file_range(fd, 0, ctypes.c_long(0), 7):  # waits before and after
    sys.exit("sync_file_range failed")
"""


def ranges_are_found(machine: Machine, path: str) -> None:
    program(machine, KNOWN + RANGE, path)
    lose_and_replay(machine)
    expect(machine, path, f"a{BYTES} b{BYTES}")


def what_all_have_synced_stays(machine: Machine, path: str) -> None:
    """sync(2) and syncfs(2) bring what changed after an fsync to the disk: a replay keeps that."""
    sync = "import ctypes; ctypes.CDLL(None).syncfs(fd)\n"
    program(machine, SYNCED + f'put(b"c", 0, 9000); os.sync()\nput(b"d", 0, 100); {sync}', path)
    lose_and_replay(machine)
    expect(machine, path, f"d100 c8900 b{BYTES - 9000}", "undone")


def renamed_file_stays_whole(machine: Machine, path: str) -> None:
    """Who gets the name of another file is on the disk before, though nobody has asked: a replay
    keeps that."""
    rename = (
        'other = os.open(path + "-other", os.O_RDWR | os.O_CREAT)\n'
        'os.write(other, b"o"); os.fsync(other)\n'
        'put(b"c"); os.rename(path, path + "-other")\n'
        # It commits the journal, and syncs no data of the first one.
        'last = os.open(path + "-last", os.O_RDWR | os.O_CREAT); os.fsync(last)\n'
    )
    program(machine, SYNCED + rename, path)
    lose_and_replay(machine)
    expect(machine, f"{path}-other", f"c{BYTES}", "undone")


def cheaper_policy_is_left_whole(machine: Machine, path: str) -> None:
    """What was acknowledged while caches could have it is in NVRAM once the policy is left."""
    sh(machine, f"echo caches >{guest.SYSFS}/state")
    program(machine, SYNCED, path)
    sh(machine, f"echo memory >{guest.SYSFS}/state")
    lose_and_replay(machine)
    expect(machine, path, f"b{BYTES}")


def cheaper_policy_says_what_is_lost(machine: Machine, path: str) -> None:
    """A reset loses what is in caches: the replay names the file that may have lost it."""
    sh(machine, f"echo caches >{guest.SYSFS}/state")
    program(machine, SYNCED, path)
    inode = sh(machine, f"stat -c %i {path}").stdout.strip()
    guest.lose_power(machine)
    report = guest.replay(machine, check=False)
    if not any(f"inode {inode} of" in line for line in report["uncertain"]):
        raise BrokenError("promises-broken", f"{path} is not named: {json.dumps(report)}")


def closed_files_are_found(machine: Machine, path: str) -> None:
    """Files that nobody may write any more: immutable ones, and those that may only grow."""
    for flag in "ia":
        program(machine, SYNCED, path + flag)
        sh(machine, f"chattr +{flag} {path}{flag}")
    program(machine, 'import os, sys; fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)\n'
            'os.write(fd, b"c" * 5000); os.fsync(fd)\n', path + "a")  # fmt: skip
    guest.lose_power(machine)
    try:
        replay(machine)
        expect(machine, path + "i", f"b{BYTES}")
        expect(machine, path + "a", f"b{BYTES} c5000")
    finally:
        sh(machine, f"chattr -ia {path}[ia] && rem-replay", check=False)


# A read from a disk that does not answer has pages of the file for its buffer: the device mapper's,
# by its own interface (linux/dm-ioctl.h).
PIN = """
import fcntl, stat, struct, subprocess, threading
CREATE, REMOVE, SUSPEND, LOAD = 3, 4, 6, 9
control = os.open("/dev/mapper/control", os.O_RDWR)
def dm(what, flags=0, table=b""):
    head = struct.pack("=6Ii3IQ128s129s7x", 4, 0, 0, 312 + len(table), 312, bool(table), 0, flags,
                       0, 0, 0, b"mute", b"")
    data = bytearray(head + table)
    fcntl.ioctl(control, 0xC138FD00 | what, data)
    return struct.unpack_from("=Q", data, 40)[0]
disk = open(path + ".disk", "wb"); disk.truncate(1 << 20); disk.flush(); os.fsync(disk.fileno())
loop = subprocess.run(["losetup", "-f", "--show", path + ".disk"], check=True,
                      capture_output=True, text=True).stdout.strip()
device = dm(CREATE)
where = f"{loop} 0".encode().ljust(32, b"\\0")
dm(LOAD, 0, struct.pack("=QQiI16s", 0, 2048, 0, 0, b"linear") + where)
dm(SUSPEND)  # which without the flag resumes
os.mknod(path + ".mute", stat.S_IFBLK | 0o600, os.makedev(device >> 8, device & 255))
direct = os.open(path + ".mute", os.O_RDONLY | os.O_DIRECT)
dm(SUSPEND, 1 << 1 | 1 << 10 | 1 << 11)  # without flushing or freezing anything
m = mmap.mmap(fd, count)
reader = threading.Thread(target=os.preadv, args=(direct, [memoryview(m)[:8192]], 0))
reader.start()
while open(f"/proc/self/task/{reader.native_id}/stat").read().split()[2] != "D":
    pass
os.fsync(fd)
dm(SUSPEND); reader.join(); os.close(direct)
dm(REMOVE); subprocess.run(["losetup", "-d", loop], check=True)
"""


def pinned_pages_are_no_damage(machine: Machine, path: str) -> None:
    """A device may write to them without a fault: the fsync is the file system's own."""
    program(machine, SYNCED + PIN, path)
    lose_and_replay(machine)
    expect(machine, path, f"b{BYTES}")


KEPT_LIMIT_S = 30.0


def unsynced_changes_are_found(machine: Machine, path: str) -> None:
    """Of a file that was synced before, once they are as old as periodic write-back waits for."""
    program(machine, KNOWN + 'put(b"b", count)\n', path)
    begin = guest.counts(machine)["pages"]
    guest.set_write_back_age(machine, guest.SOON_S)
    # With a planted bug it never becomes so, and the file tells.
    with suppress(HangError):
        wait_until(
            lambda: guest.counts(machine)["pages"] > begin, "changes are registered", KEPT_LIMIT_S
        )
    lose_and_replay(machine)
    expect(machine, path, f"a{BYTES} b{BYTES}")


EXCHANGE = """
import fcntl, struct
donor = os.open(path + "-donor", os.O_RDWR | os.O_CREAT, 0o640)
for letter in (b"c", b"d"):
    os.pwrite(donor, letter * 8192, 0); os.fsync(donor)
fcntl.ioctl(fd, 0xC028660F, struct.pack("=II4Q", 0, donor, 0, 0, 2, 0))  # EXT4_IOC_MOVE_EXT
os.sync()
os.posix_fadvise(donor, 0, 0, os.POSIX_FADV_DONTNEED)
"""


def exchanged_extents_stay(machine: Machine, path: str) -> None:
    """ext4's defragmentation gives a file the blocks of another one, which has zeros then."""
    program(machine, SYNCED + EXCHANGE, path)
    lose_and_replay(machine)
    expect(machine, path, f"b{BYTES}", "undone")
    expect(machine, f"{path}-donor", "08192", "undone")


def drained_pages_are_on_the_disk(machine: Machine, path: str) -> None:
    """Their entries are gone, and so may the registry."""
    program(machine, KNOWN + f'put(b"b", count, {BYTES}); os.fsync(fd)\n', path)
    guest.drain(machine)
    _lose_registry(machine)
    expect(machine, path, f"a{BYTES} b{BYTES}")


def _lose_registry(machine: Machine) -> None:
    machine.cut(UNANNOUNCED)
    machine.guest.close()
    guest.boot_without_registry(machine)


def left_state_keeps_nothing(machine: Machine, path: str) -> None:
    program(machine, SYNCED, path)
    sh(machine, f"echo disk >{guest.SYSFS}/state")
    _lose_registry(machine)
    expect(machine, path, f"b{BYTES}")


def nothing_ends_in_memory_without_a_promise(machine: Machine, path: str) -> None:
    program(machine, SYNCED, path)
    end_promise(machine)
    before = guest.counts(machine)["in_memory"]
    program(machine, 'import os, sys; fd = os.open(sys.argv[1], os.O_RDWR)\n'
            'os.pwrite(fd, b"c" * 100, 0); os.fsync(fd)\n'
            'os.pwrite(fd, b"d" * 100, 0); os.fsync(fd)\n', path)  # fmt: skip
    after = guest.counts(machine)["in_memory"]
    guest.lose_power(machine)
    if after != before:
        raise BrokenError("promises-broken", f"{after - before} ended in memory unpromised")
    expect(machine, path, f"d100 b{BYTES - 100}")


def _image(machine: Machine, path: str, options: str = "") -> str:
    """A file system in a file, mounted at *path*.dir. Return the command that mounts it again."""
    image = f"{path}.image"
    make = f"dd if=/dev/zero of={image} bs=1M count=8 && mkfs.ext4 -q {options} {image}"
    mount = f"mount $(losetup -f --show {image}) {path}.dir"
    sh(machine, f"mkdir -p {path}.dir && {make} && sync && {mount}")
    return mount


def repeated_replay_undoes_nothing(
    machine: Machine, path: str, booted: Callable[[], None] = lambda: None
) -> None:
    """The first replay lacks a file system, so that the registry is kept. *booted* is called after
    the power failure: a bug that is planted at run time is planted again."""
    mount = _image(machine, path)
    program(machine, SYNCED, path)
    program(machine, SYNCED, f"{path}.dir/file")
    guest.lose_power(machine)
    booted()
    guest.replay(machine, check=False)
    expect(machine, path, f"b{BYTES}")
    program(machine, PRELUDE + 'put(b"c"); os.sync()\n', path)
    sh(machine, mount)
    replay(machine)
    found = content(machine, f"{path}.dir/file")
    sh(machine, f"umount {path}.dir && losetup -D")
    expect(machine, path, f"c{BYTES}", "undone")
    if found != f"b{BYTES}":
        raise BrokenError("promises-broken", f"the file in {path}.image is {found}")


HALF_PAGES = 16
# A block of each page is written; the others are on the disk only, and the page has something else.
WHOLE = PRELUDE + f'put(b"a", 0, {HALF_PAGES * 4096}); os.fsync(fd)\n'
HALF = (
    PRELUDE
    + f"""
os.fsync(fd)
with mmap.mmap(-1, {4 * HALF_PAGES * 4096}) as m:
    m[:] = b"z" * len(m)
for n in range({HALF_PAGES}):
    put(b"b", n * 4096 + 1024, 1024)
os.fsync(fd)
"""
)


def unread_blocks_are_kept(machine: Machine, path: str) -> None:
    """Blocks smaller than a page: a replay writes none that the page cache does not have."""
    mount = _image(machine, path, "-b 1024")
    file = f"{path}.dir/file"
    program(machine, WHOLE, file)
    sh(machine, f"umount {path}.dir && losetup -D && {mount}")
    program(machine, HALF, file)
    guest.lose_power(machine)
    guest.replay(machine, check=False)  # the file system's own blocks
    sh(machine, mount)
    replay(machine)
    try:
        expect(machine, file, f"a1024 b1024 {'a3072 b1024 ' * (HALF_PAGES - 1)}a2048")
    finally:
        sh(machine, f"umount {path}.dir && losetup -D")


# One page is registered, so the file is not let go.
PARTS = (
    PRELUDE
    + f"""
os.fsync(fd)
put(b"c", 0, 4096); os.fsync(fd)
for n in range(1, {HALF_PAGES}):
    put(b"b", n * 4096 + 1024, 1024)
"""
)


def unsynced_parts_of_pages_are_written(machine: Machine, path: str) -> None:
    """Such a page cannot be registered, so periodic write-back may not leave its file alone."""
    mount = _image(machine, path, "-b 1024")
    file = f"{path}.dir/file"
    program(machine, WHOLE, file)
    sh(machine, f"umount {path}.dir && losetup -D && {mount}")
    disk = f"/sys/dev/block/$(mountpoint -d {path}.dir)"
    sh(machine, guest.SHARE.format(disk=disk))
    program(machine, PARTS, file)
    guest.set_write_back_age(machine, guest.SOON_S)

    def is_written() -> bool:
        return sh(machine, f"grep -q {'b' * 1024} {path}.image", check=False).ok

    try:
        wait_until(is_written, "the file system has written them", KEPT_LIMIT_S)
    except HangError as error:
        raise BrokenError("promises-broken", str(error)) from None
    finally:
        guest.set_write_back_age(machine, guest.LATE_S)
        sh(machine, f"umount {path}.dir && losetup -D")


def unlinked_file_may_come_back(machine: Machine, path: str) -> None:
    """Nobody has made its removal durable: if it is there, then as it was acknowledged."""
    sh(machine, LATE_COMMIT)
    program(machine, KNOWN + "os.close(fd); os.unlink(path)\n", path)
    lose_and_replay(machine)
    if content(machine, path) != "-":
        expect(machine, path, f"a{BYTES}")


Check = Callable[..., None]  # of a machine and the path of a file
CHECKS: tuple[Check, ...] = (
    synced_pages_are_found,
    appended_pages_are_found,
    mapped_stores_are_found,
    what_is_behind_the_end_is_no_damage,
    later_changes_do_no_harm,
    pinned_pages_are_no_damage,
    new_names_are_found,
    truncated_file_stays_so,
    file_truncated_by_its_name_stays_so,
    direct_write_stays,
    attributes_are_found,
    size_without_pages_is_found,
    idle_files_lose_nothing,
    ranges_are_found,
    what_all_have_synced_stays,
    renamed_file_stays_whole,
    cheaper_policy_says_what_is_lost,
    unsynced_changes_are_found,
    closed_files_are_found,
    exchanged_extents_stay,
    drained_pages_are_on_the_disk,
    left_state_keeps_nothing,
    nothing_ends_in_memory_without_a_promise,
    repeated_replay_undoes_nothing,
    unread_blocks_are_kept,
    unsynced_parts_of_pages_are_written,
    unlinked_file_may_come_back,
)
# Planted bugs of the kernel, and the check that has to find each.
KERNEL_BUGS: dict[str, Check] = {
    "fsync-cleaned-early": drained_pages_are_on_the_disk,
    "fsync-keeps-state": left_state_keeps_nothing,
    "fsync-unpromised": nothing_ends_in_memory_without_a_promise,
    "fsync-forgets-truncation": truncated_file_stays_so,
    "fsync-stays-writable": mapped_stores_are_found,
    "fsync-old-size": appended_pages_are_found,
    "fsync-change-unsaid": later_changes_do_no_harm,
    "fsync-written-again": repeated_replay_undoes_nothing,
    "fsync-name-forgotten": new_names_are_found,
    "fsync-other-changes-unheard": attributes_are_found,
    "fsync-let-go-late": idle_files_lose_nothing,
    "fsync-never-kept": unsynced_changes_are_found,
    "fsync-range-dropped": ranges_are_found,
    "fsync-caches-unsaid": cheaper_policy_says_what_is_lost,
    "fsync-closed-registered": closed_files_are_found,
    "fsync-pinned-steady": pinned_pages_are_no_damage,
    "fsync-tail-kept": what_is_behind_the_end_is_no_damage,
    "fsync-half-page": unread_blocks_are_kept,
    "fsync-kept-in-part": unsynced_parts_of_pages_are_written,
    "fsync-unwritten-unseen": new_names_are_found,
    "fsync-unlinked-dropped": unlinked_file_may_come_back,
}
# One that has to be planted in the next boot, too.
AFTER_BOOT = ("fsync-written-again",)
LOADER_BUGS = ("registry-not-copied", "registry-not-kept")
# These do harm where CPU caches are volatile.
CACHE_BUGS: dict[str, Check] = {
    "fsync-no-flush": synced_pages_are_found,
    "fsync-entry-in-cache": synced_pages_are_found,
    "fsync-sync-unheard": what_all_have_synced_stays,
    "fsync-replaces-stale": renamed_file_stays_whole,
    "fsync-caches-stay": cheaper_policy_is_left_whole,
}


def check_with_bug(machine: Machine, name: str) -> None:
    """The check of a planted bug, with that bug; afterwards nothing is planted.

    Kernel and loader are those with planted bugs.
    """
    start_again(machine)
    path = f"/root/{name}"
    try:
        if name in LOADER_BUGS:
            synced_pages_are_found(machine, path, mutant=name)
            return
        plant(machine, name)
        again = {"booted": lambda: plant(machine, name)} if name in AFTER_BOOT else {}
        KERNEL_BUGS[name](machine, path, **again)
    finally:
        start_again(machine)


def check_on_media(machine: Machine, name: str) -> None:
    """The check of one of CACHE_BUGS with that bug; afterwards nothing is planted.

    The machine is one of fsync_guest.caches_guest(), with the kernel with planted bugs.
    """
    plant(machine, name)
    try:
        CACHE_BUGS[name](machine, f"/root/{name}")
    finally:
        if guest.state(machine) != "memory":
            guest.lose_power(machine)
            guest.replay(machine, "--discard", check=False)
        plant(machine, NONE)


def start_again(machine: Machine) -> None:
    """Nothing planted, and in force."""
    if guest.state(machine) == "memory":
        plant(machine, NONE)
        return
    guest.lose_power(machine)
    guest.replay(machine, "--discard", check=False)
    if guest.state(machine) != "memory":
        raise RemError(f"fsync does not end in memory: {guest.state(machine)}")

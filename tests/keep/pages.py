# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: the rules of /dev/rem_keep (keep/include/rem_keep_uapi.h), one after another.

pages.py   needs a module that has just been loaded, with all its pages held. Prints nothing if all
hold.
"""

import ctypes
import errno
import fcntl
import os
import random
import signal
import struct
from collections.abc import Callable
from contextlib import suppress

INFO, FREE, TAKE, PUT, FLUSH = 0x80184B60, 0x40084B61, 0xC0104B62, 0xC0184B63, 0x4B64
PIN, UNPIN = 0xC0204B67, 0x4B68
ELSEWHERE = 0xFFFFFFFF
PAGE_BYTES = 4096
AT = 0x100_0000_0000  # where nothing is mapped
MAPPED_PAGES = 16
HELD_PAGES = 4096  # at the end of the range, for these tests
FUZZ_CALLS = 20000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
device = os.open("/dev/rem_keep", os.O_RDWR)


def info() -> tuple[int, ...]:
    raw = bytearray(24)
    fcntl.ioctl(device, INFO, raw)
    return struct.unpack("<QIIiI", raw)


def free(first: int, pages: int) -> None:
    fcntl.ioctl(device, FREE, struct.pack("<II", first, pages))


def put(pid: int, entries: list[tuple[int, int]]) -> tuple[int, ...]:
    """How many were placed, and how many copied."""
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("<QII", *e, pid) for e in entries))
    words = (ctypes.addressof(buffer), len(entries), pid, 0, 0)
    raw = bytearray(struct.pack("<QIIII", *words))
    fcntl.ioctl(device, PUT, raw)
    return struct.unpack("<QIIII", raw)[3:]


def pin(pid: int, vaddr: int, count: int) -> list[int]:
    """The frames of successive pages of a process."""
    buffer = ctypes.create_string_buffer(16 * max(count, 1))
    raw = bytearray(struct.pack("<QQIIII", ctypes.addressof(buffer), vaddr, count, pid, 7, 0))
    fcntl.ioctl(device, PIN, raw)
    entries = list(struct.iter_unpack("<QII", buffer.raw[: 16 * count]))
    assert [(e[0], e[2]) for e in entries] == [(vaddr + n * PAGE_BYTES, pid) for n in range(count)]
    frames = [entry[1] for entry in entries]
    assert struct.unpack("<QQIIII", raw)[4] == frames.count(ELSEWHERE)
    return frames


def refused(why: int, call: Callable[..., object], *words: object) -> None:
    try:
        call(*words)
    except OSError as error:
        assert error.errno == why, (error, words)
    else:
        raise AssertionError(f"{call} {words} was not refused")


def page_of(frame: int) -> bytes:
    return os.pread(device, PAGE_BYTES, frame * PAGE_BYTES)


def fill(frame: int, byte: int) -> None:
    assert os.pwrite(device, bytes([byte]) * PAGE_BYTES, frame * PAGE_BYTES) == PAGE_BYTES


class Child:
    """A process with a mapping of zeros, that stops; its third page is its own already."""

    def __init__(self) -> None:
        self.pid = os.fork()
        if not self.pid:
            at = libc.mmap(ctypes.c_void_p(AT), MAPPED_PAGES * PAGE_BYTES, 3, 0x100022, -1, 0)
            ctypes.memset(at + 2 * PAGE_BYTES, 0x7A, PAGE_BYTES)
            os.kill(os.getpid(), signal.SIGSTOP)
            found = [ctypes.string_at(at + n * PAGE_BYTES, PAGE_BYTES) for n in range(6)]
            want = [bytes([65 + n]) * PAGE_BYTES for n in range(5)] + [bytes(PAGE_BYTES)]
            ctypes.memset(at, 0x62, 6 * PAGE_BYTES)
            os._exit(0 if found == want else 1)
        os.waitpid(self.pid, os.WUNTRACED)

    def frames(self, count: int) -> list[int]:
        """Where its first pages are, as frames of the whole memory."""
        with open(f"/proc/{self.pid}/pagemap", "rb") as file:
            file.seek(AT // PAGE_BYTES * 8)
            words = struct.iter_unpack("<Q", file.read(8 * count))
            return [word & ((1 << 55) - 1) for (word,) in words]

    def end(self) -> int:
        os.kill(self.pid, signal.SIGCONT)
        return os.waitpid(self.pid, 0)[1]


start, pages, held, _, _ = info()
assert held == pages, "a page is free before anybody has freed it"
first = pages - HELD_PAGES
fill(5, 0x11)
free(0, first)
assert info()[2] == HELD_PAGES
refused(errno.EBUSY, page_of, 5)
refused(errno.EBUSY, fill, 5, 1)
refused(errno.EBUSY, free, 0, 1)
refused(errno.EBUSY, free, first - 1, 2)
refused(errno.EBUSY, free, pages - 1, 2)
refused(errno.EBUSY, free, first, 0xFFFFFFFF)

# Pages become a process's own, where they are, with what they hold.
child = Child()
for n in range(5):
    fill(first + n, 65 + n)
assert put(child.pid, [(AT + n * PAGE_BYTES, first + n) for n in range(5)]) == (4, 1)
where = child.frames(6)
for n in (0, 1, 3, 4):
    assert where[n] == start // PAGE_BYTES + first + n
refused(errno.EBUSY, page_of, first)
refused(errno.EBUSY, put, child.pid, [(AT + 5 * PAGE_BYTES, first)])
# They are found there, each for one that asks; a page that is not there is not made.
found = pin(child.pid, AT, 8)
assert [found[n] for n in (0, 1, 3, 4)] == [first + n for n in (0, 1, 3, 4)]
assert found[5:] == [ELSEWHERE] * 3
assert child.frames(8)[6:] == [0, 0]
assert pin(child.pid, AT, 8) == [ELSEWHERE] * 8
fcntl.ioctl(device, UNPIN)
assert pin(child.pid, AT + PAGE_BYTES, 1) == [first + 1]
fcntl.ioctl(device, UNPIN)
fcntl.ioctl(device, UNPIN)
refused(errno.EINVAL, pin, child.pid, AT + 1, 1)
refused(errno.EINVAL, pin, child.pid, 1 << 63, 1)
refused(errno.EINVAL, pin, child.pid, (1 << 47) - PAGE_BYTES, 2)
refused(errno.ESRCH, pin, 0x7FFFFFFF, AT, 1)
assert pin(child.pid, AT - PAGE_BYTES, 1) == [ELSEWHERE]
assert child.end() == 0
assert info()[2] == HELD_PAGES - 5

# What is wrong is refused, and the page stays held.
child = Child()
one = first + 100
fill(one, 0x55)
refused(errno.EINVAL, put, child.pid, [(AT + 1, one)])
refused(errno.EINVAL, put, child.pid, [(1 << 63, one)])
refused(errno.EBUSY, put, child.pid, [(AT, pages)])
refused(errno.EBUSY, put, child.pid, [(AT, one), (AT + PAGE_BYTES, one)])
refused(errno.ESRCH, put, 0x7FFFFFFF, [(AT, one)])
assert page_of(one) == b"\x55" * PAGE_BYTES
# An address that is not mapped: the page is gone, as it was given away.
refused(errno.EFAULT, put, child.pid, [(AT - PAGE_BYTES, one)])
child.end()

# Pages that the allocator gives back.
frames = (ctypes.c_uint32 * 8)()
raw = bytearray(struct.pack("<QII", ctypes.addressof(frames), 8, 0))
fcntl.ioctl(device, TAKE, raw)
assert struct.unpack("<QII", raw)[1] == 8
assert len(set(frames)) == 8
for frame in frames:
    fill(frame, 0x33)
    assert page_of(frame) == b"\x33" * PAGE_BYTES
    free(frame, 1)
fcntl.ioctl(device, FLUSH)

# Calls without sense harm nothing.
dice = random.Random(1)
kept = first + 2000
fill(kept, 0x77)
for _ in range(FUZZ_CALLS):
    request = dice.choice([INFO, TAKE, PUT, PIN, UNPIN, dice.getrandbits(32)])
    if request in (FREE, TAKE):
        continue
    raw = bytearray(dice.randbytes(32))
    if dice.random() < 0.5:  # addresses that can be read, and few entries
        struct.pack_into("<QI", raw, 0, ctypes.addressof(frames), dice.randrange(3))
    if request == PIN and dice.random() < 0.5:
        words = (ctypes.addressof(frames), AT, dice.randrange(3), os.getpid())
        struct.pack_into("<QQII", raw, 0, *words)
    with suppress(OSError):
        fcntl.ioctl(device, request, raw)
assert page_of(kept) == b"\x77" * PAGE_BYTES

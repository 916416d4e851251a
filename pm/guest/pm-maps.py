# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pm-maps.py SEGMENT: what programs may do with a mapped segment, and what they may not.

A debugger reads and writes it (/proc/PID/mem); a private mapping keeps its stores to itself; a
buffer that is none is EFAULT. The kernel's own mapping of a segment is read-only, so that no page
of it is lent: O_DIRECT into it and futexes between processes are EFAULT, too.
"""

import ctypes
import errno
import mmap
import os
import sys

SIZE = 4 << 20  # large enough for a large page
FUTEX_WAKE = 1
FUTEX_PRIVATE = 128
SYS_FUTEX = 202

libc = ctypes.CDLL(None, use_errno=True)


def failed(done: int) -> int:
    """The errno of a call that must have failed."""
    assert done == -1, done
    return ctypes.get_errno()


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def bad_buffer(fd: int) -> None:
    assert failed(libc.pread(fd, ctypes.c_void_p(8), 4096, 0)) == errno.EFAULT, (
        "a read into nothing"
    )
    assert failed(libc.pwrite(fd, ctypes.c_void_p(8), 4096, 0)) == errno.EFAULT, (
        "a write from nothing"
    )
    assert libc.pread(fd, ctypes.c_void_p(8), 4096, SIZE) == 0, "a read at the end"


def debugger(fd: int) -> None:
    with mmap.mmap(fd, SIZE) as memory:
        at = address_of(memory)
        memory[8000:8005] = b"seen?"
        mem = os.open("/proc/self/mem", os.O_RDWR)
        assert os.pread(mem, 5, at + 8000) == b"seen?", "a debugger's read"
        # Over the border of two pages.
        assert os.pwrite(mem, b"changed", at + 8189) == 7, "a debugger's write"
        assert memory[8189:8196] == b"changed", "what a debugger wrote"
        assert os.pread(fd, 7, 8189) == b"changed", "the same, by read()"
        os.close(mem)


def private(fd: int) -> None:
    os.pwrite(fd, b"shared", 4096)
    with mmap.mmap(fd, SIZE, flags=mmap.MAP_PRIVATE) as memory:
        assert memory[4096:4102] == b"shared", "a private mapping"
        memory[4096:4102] = b"my own"  # after a read of that page
        memory[0:4] = b"mine"  # without one
        assert memory[4096:4102] == b"my own", "its own store"
        assert memory[8189:8196] == b"changed", "a page it did not store to"
        assert os.pread(fd, 6, 4096) == b"shared", "the segment, behind its store"
        assert os.pread(fd, 4, 0) != b"mine", "the segment, behind its first store"


def not_lent(fd: int) -> None:
    with mmap.mmap(fd, SIZE) as memory:
        at = address_of(memory)
        memory[0] = 1
        # A file of a disk: a buffer in ordinary memory first, to show that it can be read so.
        direct = os.open("/root/pmcore.ko", os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as ordinary:
            assert os.preadv(direct, [ordinary], 0) == 4096, "O_DIRECT into ordinary memory"
        assert failed(libc.pread(direct, ctypes.c_void_p(at), 4096, 0)) == errno.EFAULT, (
            "O_DIRECT into a segment"
        )
        os.close(direct)
        word = ctypes.c_void_p(at)
        assert (
            failed(libc.syscall(SYS_FUTEX, word, FUTEX_WAKE, 1, None, None, 0)) == errno.EFAULT
        ), "a futex of processes"
        # Among the threads of one process no page is needed.
        assert libc.syscall(SYS_FUTEX, word, FUTEX_WAKE | FUTEX_PRIVATE, 1, None, None, 0) == 0, (
            "a futex of threads"
        )


def main() -> None:
    fd = os.open(f"/dev/pm/{sys.argv[1]}", os.O_RDWR)
    bad_buffer(fd)
    debugger(fd)
    private(fd)
    not_lent(fd)
    print("in order")


main()

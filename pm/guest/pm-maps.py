# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pm-maps.py SEGMENT: what programs may do with a mapped segment, and what they may not.

A debugger, of the same process or of another one, reads and writes it (/proc/PID/mem, ptrace); a
private mapping keeps its stores to itself, and a debugger's; a buffer that is none is EFAULT. The
kernel's own mapping of a segment is read-only, so that no page of it is lent: O_DIRECT into it and
out of it and futexes between processes are EFAULT, too. A private mapping has pages of its own.
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
PTRACE_PEEKDATA, PTRACE_POKEDATA, PTRACE_ATTACH, PTRACE_DETACH = 2, 5, 16, 17

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


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
        direct = os.open("/root/pmcore.ko", os.O_RDONLY | os.O_DIRECT)
        count = libc.pread(direct, ctypes.c_void_p(address_of(memory)), 4096, 0)
        assert count == 4096, "O_DIRECT into a private mapping"
        os.close(direct)
        with open("/root/pmcore.ko", "rb") as file:
            assert memory[:4096] == file.read(4096), "what came there"


def trace(request: int, pid: int, at: int, word: int = 0) -> int:
    ctypes.set_errno(0)
    got: int = libc.ptrace(request, pid, at, word)
    assert not ctypes.get_errno(), os.strerror(ctypes.get_errno())
    return got


def other_process(fd: int, flags: int) -> None:
    """A debugger's stores change what they are made to, and nothing beside it."""
    mine, its = os.pipe(), os.pipe()
    content = bytes(at % 251 for at in range(8192))
    os.pwrite(fd, content, 1 << 20)
    pid = os.fork()
    if not pid:
        memory = mmap.mmap(fd, SIZE, flags=flags)
        at = address_of(memory) + (1 << 20)
        ctypes.string_at(at, 1)  # a page that is mapped already, and one that is not
        os.write(mine[1], at.to_bytes(8, "little"))
        os.read(its[0], 1)
        os.write(mine[1], ctypes.string_at(at, 8192))
        os.read(its[0], 1)
        os._exit(0)
    at = int.from_bytes(os.read(mine[0], 8), "little")
    trace(PTRACE_ATTACH, pid, 0)
    os.waitpid(pid, 0)
    assert trace(PTRACE_PEEKDATA, pid, at + 8) == int.from_bytes(content[8:16], "little")
    trace(PTRACE_POKEDATA, pid, at + 8, int.from_bytes(b"poked it", "little"))
    mem = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    assert os.pwrite(mem, b"by memory", at + 5000) == 9, "a debugger's write"
    os.close(mem)
    trace(PTRACE_DETACH, pid, 0)
    os.write(its[1], b"x")
    expected = bytearray(content)
    expected[8:16], expected[5000:5009] = b"poked it", b"by memory"
    seen = b""
    while len(seen) < 8192:
        seen += os.read(mine[0], 8192)
    assert seen == expected, f"beside a debugger's store, flags {flags}"
    of_segment = content if flags == mmap.MAP_PRIVATE else bytes(expected)
    assert os.pread(fd, 8192, 1 << 20) == of_segment, f"the segment, flags {flags}"
    os.write(its[1], b"x")
    os.waitpid(pid, 0)


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
        direct = os.open("/root/direct", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as ordinary:
            assert os.pwritev(direct, [ordinary], 0) == 4096, "O_DIRECT out of ordinary memory"
        assert failed(libc.pwrite(direct, ctypes.c_void_p(at), 4096, 0)) == errno.EFAULT, (
            "O_DIRECT out of a segment"
        )
        os.close(direct)
        os.unlink("/root/direct")
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
    other_process(fd, mmap.MAP_SHARED)
    other_process(fd, mmap.MAP_PRIVATE)
    not_lent(fd)
    print("in order")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes past the page cache (O_DIRECT), from several threads: requests are always in flight.
`direct.py` prints `THREAD NUMBER` when a block's write and fdatasync have returned; a thread reuses
its slots in turn. `direct.py check` reads these lines and checks each thread's newest blocks.
"""

import hashlib
import mmap
import os
import sys
import threading

THREADS = 3
BLOCK_BYTES = 512 << 10
SLOTS = 64  # of a thread
CHECKED = 56  # fewer than SLOTS: the next ones may hold newer blocks


def content(thread: int, number: int) -> bytes:
    seed = hashlib.sha256(b"%d %d" % (thread, number)).digest()
    return seed * (BLOCK_BYTES // len(seed))


def place(thread: int, number: int) -> int:
    return (thread * SLOTS + number % SLOTS) * BLOCK_BYTES


def write(fd: int, thread: int, block: mmap.mmap) -> None:
    number = 0
    while True:
        block[:] = content(thread, number)
        os.pwritev(fd, [block], place(thread, number))
        os.fdatasync(fd)
        os.write(1, b"%d %d\n" % (thread, number))
        number += 1


def work() -> None:
    with open("blocks", "wb") as file:
        for _ in range(THREADS * SLOTS):
            file.write(bytes(BLOCK_BYTES))
        os.fsync(file.fileno())
    fd = os.open("blocks", os.O_RDWR | os.O_DIRECT)
    threads = [
        threading.Thread(target=write, args=(fd, n, mmap.mmap(-1, BLOCK_BYTES)))
        for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()


def check() -> None:
    last: dict[int, int] = {}
    for line in sys.stdin:
        thread, number = map(int, line.split())
        last[thread] = max(number, last.get(thread, 0))
    if not last:
        return
    with open("blocks", "rb") as file:
        for thread, newest in sorted(last.items()):
            for number in range(max(0, newest - CHECKED + 1), newest + 1):
                file.seek(place(thread, number))
                if file.read(BLOCK_BYTES) != content(thread, number):
                    sys.exit(f"block {number} of thread {thread} was written and has other content")


if sys.argv[1:] == ["check"]:
    check()
else:
    work()

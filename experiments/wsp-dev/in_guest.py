#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes past the page cache, from many threads, so that requests are always in flight.

    in_guest.py FILE END       until END exists; prints what became of the calls, as JSON

END.begun is there as soon as all threads write.

A call that a power failure interrupted is one during which the machine was off: CLOCK_BOOTTIME
counts that time and CLOCK_MONOTONIC does not. At the end each thread reads its newest block of each
place: it must be the one whose call has returned last.
"""

import json
import mmap
import os
import sys
import threading
import time

THREADS = 8
BLOCK_BYTES = 1 << 20
HEAD_BYTES = 32  # what differs from call to call: a thread is in a call nearly all the time
PLACES = 8  # of a thread
OFF_MIN_NS = 1_000_000_000


def off_ns() -> int:
    """How long the machine has been off in its life."""
    boot, monotonic = (
        time.clock_gettime_ns(clock) for clock in (time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)
    )
    return boot - monotonic


def head(thread: int, number: int) -> bytes:
    return b"%15d %15d\n" % (thread, number)


def content(thread: int, number: int) -> bytes:
    return head(thread, number) + head(thread, 0) * (BLOCK_BYTES // HEAD_BYTES - 1)


class Writer(threading.Thread):
    """One thread, with places of its own in the file."""

    def __init__(self, fd: int, thread: int, end: str) -> None:
        super().__init__()
        self.fd, self.number, self.end = fd, thread, end
        self.calls = self.interrupted = self.failed = self.wrong = 0

    def place(self, number: int) -> int:
        return (self.number * PLACES + number % PLACES) * BLOCK_BYTES

    def is_over(self) -> bool:
        return os.path.exists(self.end)

    def run(self) -> None:
        block = mmap.mmap(-1, BLOCK_BYTES)
        block[:] = content(self.number, 0)
        returned = {}
        while not self.is_over():
            block[:HEAD_BYTES] = head(self.number, self.calls)
            before_ns, ended_well = off_ns(), True
            try:
                ended_well = os.pwritev(self.fd, [block], self.place(self.calls)) == BLOCK_BYTES
            except OSError:
                ended_well = False
            self.interrupted += off_ns() - before_ns > OFF_MIN_NS
            self.failed += not ended_well
            if ended_well:
                returned[self.place(self.calls)] = self.calls
            self.calls += 1
        for place, number in returned.items():
            os.preadv(self.fd, [block], place)
            self.wrong += block[:] != content(self.number, number)


def main(file: str, end: str) -> None:
    with open(file, "wb") as made:
        made.write(bytes(THREADS * PLACES * BLOCK_BYTES))
        os.fsync(made.fileno())
    fd = os.open(file, os.O_RDWR | os.O_DIRECT)
    writers = [Writer(fd, number, end) for number in range(THREADS)]
    for writer in writers:
        writer.start()
    with open(f"{end}.begun", "wb"):
        pass
    for writer in writers:
        writer.join()
    names = ("calls", "interrupted", "failed", "wrong")
    print(json.dumps({name: sum(vars(one)[name] for one in writers) for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])

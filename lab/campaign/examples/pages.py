#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages of memory, of which each round knows what they have to hold. A line stands for a round that
was written to a file, and whose pages were all right.

A page that is older than its last store ends the workload, so that it does not continue. The file
is for boots that do not resume: it has each round that was printed.
"""

from __future__ import annotations

import mmap
import os
import sys

PAGE_BYTES = 4096
PAGES = 1500
HOT = 600  # of them, used in each round
EVERY = 4  # rounds in which each of these is written


def content(page: int, version: int) -> bytes:
    return b"%07d,%07d;" % (page, version) * (PAGE_BYTES // 16)


def version(page: int, done: int) -> int:
    """The last round in which a page was written, of those that are done."""
    since = (done + page) % EVERY
    return done - since if page < HOT and done > since else 0


def work() -> None:
    memory = mmap.mmap(-1, PAGES * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for page in range(PAGES):
        memory[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = content(page, 0)
    done = 0
    while True:
        done += 1
        for page in (*range(HOT), HOT + done % (PAGES - HOT)):
            place = slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
            wanted = content(page, version(page, done))
            if version(page, done) == done:
                memory[place] = wanted
            elif memory[place] != wanted:
                sys.exit(f"page {page} is {memory[place][:16]!r} in round {done}")
        os.write(log, b"%d\n" % done)
        os.fsync(log)
        print(done, flush=True)


def check() -> None:
    promised = [int(line) for line in sys.stdin]
    with open("log", encoding="ascii") as log:
        found = {int(line) for line in log if line.endswith("\n")}
    lost = [number for number in promised if number not in found]
    if lost:
        sys.exit(f"{len(lost)} rounds are not in the file, the first is {lost[0]}")


if __name__ == "__main__":
    check() if sys.argv[1:] == ["check"] else work()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages of memory and of a file, of which each round knows what they have to hold. A line stands
for a round that was written to another file, and whose pages were all right.

A page that is older than its last change ends the workload, so that it does not continue. The pages
of the file are read and, by another mapping, looked at where they are mapped. The lines begin when
DRAM has copies of each kind. The file of rounds is for boots that do not resume: it has each round
that was printed.
"""

from __future__ import annotations

import mmap
import os
import sys

PAGE_BYTES = 4096
PAGES = 1500
HOT = 600  # of them, used in each round
EVERY = 4  # rounds in which each of these is written
FILE_PAGES = 120  # one is written in each round
COUNTS = "/sys/kernel/remanence/dram/counts"
KINDS = ("used", "file_used", "file_mapped", "file_reads_dram")


def content(page: int, version: int) -> bytes:
    return b"%07d,%07d;" % (page, version) * (PAGE_BYTES // 16)


def place(page: int) -> slice:
    return slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)


def last_change(page: int, done: int, every: int) -> int:
    """The last round in which a page was written, of those that are done; 0: in none."""
    since = (done + page) % every
    return done - since if done > since else 0


def compare(what: str, page: int, found: bytes, version: int) -> None:
    if found != content(page, version):
        sys.exit(f"page {page} of {what} is {found[:16]!r}, not of version {version}")


class Memory:
    """Pages of the program's own."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.memory = mmap.mmap(-1, PAGES * PAGE_BYTES, flags=flags)
        for page in range(PAGES):
            self.memory[place(page)] = content(page, 0)

    def round(self, done: int) -> None:
        for page in (*range(HOT), HOT + done % (PAGES - HOT)):
            version = last_change(page, done, EVERY) if page < HOT else 0
            if version == done:
                self.memory[place(page)] = content(page, version)
            else:
                compare("memory", page, self.memory[place(page)], version)


class File:
    """Pages of a file, which have to be clean to have copies."""

    def __init__(self) -> None:
        self.file = os.open("pages", os.O_CREAT | os.O_RDWR, 0o600)
        for page in range(FILE_PAGES):
            os.pwrite(self.file, content(page, 0), page * PAGE_BYTES)
        os.fsync(self.file)
        size_bytes = FILE_PAGES * PAGE_BYTES
        self.mapped = mmap.mmap(self.file, size_bytes, mmap.MAP_PRIVATE, mmap.PROT_READ)

    def round(self, done: int) -> None:
        for page in range(FILE_PAGES):
            version = last_change(page, done, FILE_PAGES)
            if version == done:
                os.pwrite(self.file, content(page, version), page * PAGE_BYTES)
                os.fsync(self.file)
            found = os.pread(self.file, PAGE_BYTES, page * PAGE_BYTES)
            compare("the file, as it is read,", page, found, version)
            compare("the file, as it is mapped,", page, self.mapped[place(page)], version)


def is_warm() -> bool:
    """Whether DRAM has copies of each kind."""
    with open(COUNTS, encoding="ascii") as file:
        counts = {name: int(value) for name, value in (line.split() for line in file)}
    return all(counts[kind] for kind in KINDS)


def work() -> None:
    log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    memory, file = Memory(), File()
    done, warm = 0, False
    while True:
        done += 1
        memory.round(done)
        file.round(done)
        os.write(log, b"%d\n" % done)
        os.fsync(log)
        warm = warm or is_warm()
        if warm:
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

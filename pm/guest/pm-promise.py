# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: work in segments of persist=fof while the platform's promise ends.

Prints a line after each part, and waits for a line before the next. All files and mappings are
open from before the end: `earlier!` is stored, written and synced before it, `durable!` after it.
What is stored to `loose` after it is never synced.
"""

from __future__ import annotations

import mmap
import os
import select
import sys
from collections.abc import Callable

import pm

LINES = range(0, 65536, 64)
LIMIT_MS = 600_000
PROMISES = (
    "/sys/kernel/remanence/flush_on_fail",
    "/sys/class/misc/pmctl/region/flush_on_fail",
)
SIZE = 65536
DAX_FILE = "/mnt/pm/file"


def stored(memory: mmap.mmap, word: bytes) -> None:
    for at in LINES:
        memory[at : at + len(word)] = word


def whole(word: bytes) -> bytes:
    return word.ljust(64, b".") * len(LINES)


def wait_for_the_end(files: list[int]) -> None:
    """Both attributes wake who waits for them, and say no."""
    for file in files:
        while os.pread(file, 8, 0).strip() != b"0":
            change = select.poll()
            change.register(file, select.POLLPRI)
            if not change.poll(LIMIT_MS):
                sys.exit("nobody was woken")


def main() -> None:
    promises = [os.open(path, os.O_RDONLY) for path in PROMISES]
    assert [os.pread(file, 8, 0).strip() for file in promises] == [b"1", b"1"]
    service = pm.Service()
    news = select.poll()
    news.register(service.fileno(), select.POLLIN)
    mapped = [os.open(f"/dev/pm/{name}", os.O_RDWR) for name in ("mapped", "loose")]
    memories = [mmap.mmap(file, SIZE) for file in mapped]
    written = os.open("/dev/pm/written", os.O_RDWR)
    blocks = pm.Blocks("blocks")
    file = os.open(DAX_FILE, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, SIZE)
    on_dax = mmap.mmap(file, SIZE)

    def work(word: bytes, synced: Callable[[int], None], at: int) -> None:
        for memory in (*memories, on_dax):
            stored(memory, word)
        synced(mapped[0])
        os.pwrite(written, whole(word), at)
        blocks.write({at // SIZE: whole(word)[:4096]})
        os.fsync(file)

    # Before: nobody flushes a mapping of /dev/pm, and fsync() of the DAX file writes none back.
    work(b"earlier!", lambda _: None, 0)
    service.status()
    print("earlier", flush=True)
    sys.stdin.readline()
    wait_for_the_end(promises)
    assert news.poll(LIMIT_MS), "nobody who waits for /dev/pmctl was woken"
    work(b"durable!", os.fsync, SIZE)
    print("durable", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

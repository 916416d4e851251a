# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: makes the kernel move pages, and overwrites memory that nobody has.

crowd.py holes   takes most of the memory, and gives every second page of it back: there is room
                 between pages now, and no large piece. Prints `ready`, and waits
crowd.py fill    stores to all memory that is free
"""

import mmap
import sys
import time

PAGE_BYTES = 4096
MADV_NOHUGEPAGE, MADV_DONTNEED = 15, 4
LEFT_BYTES = 96 << 20


def free_bytes() -> int:
    with open("/proc/meminfo") as file:
        kib = {line.split()[0]: int(line.split()[1]) for line in file}
    return (kib["MemFree:"] << 10) - LEFT_BYTES


size = free_bytes() // PAGE_BYTES * PAGE_BYTES
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(MADV_NOHUGEPAGE)
for at in range(0, size, PAGE_BYTES):
    memory[at : at + 8] = b"crowded!"
if sys.argv[1] == "holes":
    for at in range(0, size, 2 * PAGE_BYTES):
        memory.madvise(MADV_DONTNEED, at, PAGE_BYTES)
    print("ready", flush=True)
    time.sleep(1000)

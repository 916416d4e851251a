# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: an application gets its data back out of a file. One line of JSON.

pm-recover.py FILE map|read DEVICE   map it and touch each page, or read it into its memory

`reads` and `bytes` are what the device DEVICE below /sys/block was asked for meanwhile.
"""

import json
import mmap
import os
import sys
import time

PIECE_BYTES = 1 << 20


def asked(device: str) -> tuple[int, int]:
    with open(f"/sys/block/{device}/stat") as file:
        words = file.read().split()
    return int(words[0]), int(words[2]) * 512


def touch(file: int, size_bytes: int) -> int:
    with mmap.mmap(file, size_bytes, prot=mmap.PROT_READ) as memory:
        return sum(memory[at] for at in range(0, size_bytes, mmap.PAGESIZE))


def read(file: int, size_bytes: int) -> int:
    data = bytearray(size_bytes)
    view = memoryview(data)
    for at in range(0, size_bytes, PIECE_BYTES):
        os.preadv(file, [view[at : at + PIECE_BYTES]], at)
    return sum(data[:: mmap.PAGESIZE])


path, way, device = sys.argv[1:4]
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
before, cpu_ns, wall_ns = asked(device), time.process_time_ns(), time.monotonic_ns()
found = (touch if way == "map" else read)(file, size)
took = {"wall_ns": time.monotonic_ns() - wall_ns, "cpu_ns": time.process_time_ns() - cpu_ns}
after = asked(device)
took |= {"reads": after[0] - before[0], "bytes": after[1] - before[1], "sum": found, "size": size}
print(json.dumps(took))

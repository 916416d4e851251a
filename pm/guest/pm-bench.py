# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: what things take, in the guest's own time. One line for each: NAME NANOSECONDS.

pm-bench.py sqlite WHERE ROWS DURABLE   rows committed one at a time, in ns for each
pm-bench.py disk DEVICE OPERATIONS      4 KiB read and written directly, in ns for each
pm-bench.py segments MANY               create and destroy beside few and beside MANY others
"""

import mmap
import os
import sqlite3
import subprocess
import sys
import time

BYTES = 4096


def sqlite(where: str, rows: int, durable: bool) -> None:
    database = sqlite3.connect(f"{where}/bench-{rows}-{durable}", isolation_level=None)
    database.execute(f"pragma journal_mode={'wal' if durable else 'off'}")
    database.execute(f"pragma synchronous={'full' if durable else 'off'}")
    database.execute("create table t (n integer primary key, v text)")
    begin = time.monotonic_ns()
    for n in range(rows):
        database.execute("insert into t values (?, ?)", (n, "v" * 100))
    print("row", (time.monotonic_ns() - begin) // rows)


def disk(device: str, operations: int) -> None:
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, BYTES)
    page.write(os.urandom(BYTES))
    for name, act in (("write", os.pwrite), ("read", lambda f, p, at: os.preadv(f, [p], at))):
        begin = time.monotonic_ns()
        for n in range(operations):
            act(fd, page, n * 37 % 1000 * BYTES)
        print(name, (time.monotonic_ns() - begin) // operations)


def pmadmin(*words: str) -> None:
    subprocess.run(["pmadmin", *words], check=True)


def one_more() -> int:
    """A create and a destroy; the best of some, since starting pmadmin is in it."""
    best = 1 << 62
    for _ in range(5):
        begin = time.monotonic_ns()
        pmadmin("create", "probe", "4096")
        pmadmin("destroy", "--yes", "probe")
        best = min(best, time.monotonic_ns() - begin)
    return best


def segments(many: int) -> None:
    print("few", one_more())
    for n in range(many):
        pmadmin("create", f"many{n}", "4096")
    print("many", one_more())


if __name__ == "__main__":
    if sys.argv[1] == "sqlite":
        sqlite(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "durable")
    elif sys.argv[1] == "disk":
        disk(sys.argv[2], int(sys.argv[3]))
    else:
        segments(int(sys.argv[2]))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: what things take, in the guest's own time. One line for each: NAME NANOSECONDS.

pm-bench.py WHERE ROWS DURABLE   rows committed one at a time, in ns for each
"""

import sqlite3
import sys
import time


def sqlite(where: str, rows: int, durable: bool) -> None:
    database = sqlite3.connect(f"{where}/bench-{rows}-{durable}", isolation_level=None)
    database.execute(f"pragma journal_mode={'wal' if durable else 'off'}")
    database.execute(f"pragma synchronous={'full' if durable else 'off'}")
    database.execute("create table t (n integer primary key, v text)")
    begin = time.monotonic_ns()
    for n in range(rows):
        database.execute("insert into t values (?, ?)", (n, "v" * 100))
    print("row", (time.monotonic_ns() - begin) // rows)


if __name__ == "__main__":
    sqlite(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "durable")

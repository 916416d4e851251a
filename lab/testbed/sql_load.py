# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: transactions on an SQLite database, each durable before the next begins.

    sql_load.py FILE MODE SECONDS      MODE: a journal_mode, as wal or delete

A transaction changes one row of ROWS and adds one to a second table. They go on for SECONDS of the
monotonic clock; the last line is "TRANSACTIONS NANOSECONDS".
"""

import random
import sqlite3
import sys
import time

ROWS = 2000
TEXT = "x" * 100


def open_base(path: str, mode: str) -> sqlite3.Connection:
    base = sqlite3.connect(path, isolation_level=None)
    found = base.execute(f"pragma journal_mode={mode}").fetchone()[0]
    if found != mode:
        sys.exit(f"{path}: journal_mode={mode} was asked for, and is {found}")
    base.execute("pragma synchronous=full")
    base.execute("create table if not exists rows(n integer primary key, value int, text)")
    base.execute("create table if not exists log(n int, value int)")
    if not base.execute("select count(*) from rows").fetchone()[0]:
        base.execute("begin")
        base.executemany("insert into rows values(?, 0, ?)", ((n, TEXT) for n in range(ROWS)))
        base.execute("commit")
    return base


def main(path: str, mode: str, seconds: float) -> None:
    base = open_base(path, mode)
    choose = random.Random(1)
    done = 0
    begin_ns = at_ns = time.monotonic_ns()
    while at_ns < begin_ns + seconds * 1e9:
        n = choose.randrange(ROWS)
        base.execute("begin immediate")
        base.execute("update rows set value = value + 1 where n = ?", (n,))
        base.execute("insert into log values(?, ?)", (n, done))
        base.execute("commit")
        done += 1
        at_ns = time.monotonic_ns()
    print(done, at_ns - begin_ns)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

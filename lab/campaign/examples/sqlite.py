#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SQLite: rows in a database, one transaction each; a row is printed when its commit returned.

`sqlite.py delete` has a rollback journal. Its commit is the removal of the journal, which only
`synchronous=EXTRA` makes durable: with FULL a power failure may undo the last commit (see SQLite's
manual), which `sqlite.py delete FULL` shows. `sqlite.py wal` has a write-ahead log and FULL.
`sqlite.py off` never flushes: the kernel alone writes pages back, so only an image that is resumed
must have its rows. `sqlite.py check` reads the printed rows.
"""

import ctypes
import hashlib
import os
import sqlite3
import sys

ROW_BYTES = 6000  # more than a page: a row has pages that no later row rewrites
WRITE_BACK = 7  # sync_file_range(): wait before, write, wait after; no flush


def row(number: int) -> bytes:
    return (hashlib.sha256(b"%d" % number).digest() * ROW_BYTES)[:ROW_BYTES]


JOURNALS = {"delete": ("DELETE", "EXTRA"), "wal": ("WAL", "FULL"), "off": ("MEMORY", "OFF")}


def work(journal: str, synchronous: str | None) -> None:
    base = sqlite3.connect("base", isolation_level=None)
    mode, usual = JOURNALS[journal]
    base.execute(f"PRAGMA journal_mode={mode}")
    base.execute(f"PRAGMA synchronous={synchronous or usual}")
    base.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, v BLOB)")
    libc = ctypes.CDLL(None, use_errno=True)
    number = 0
    while True:
        base.execute("INSERT INTO rows VALUES (?, ?)", (number, row(number)))
        if journal == "off":
            with open("base", "rb") as file:
                span = (ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(WRITE_BACK))
                if libc.sync_file_range(file.fileno(), *span):
                    sys.exit("sync_file_range failed")
        print(number, flush=True)
        number += 1


def check(owed: bool) -> None:
    printed = [int(line) for line in sys.stdin]
    try:
        base = sqlite3.connect("base")
        verdict = base.execute("PRAGMA integrity_check").fetchone()[0]
        kept = dict(base.execute("SELECT n, v FROM rows"))
    except sqlite3.Error as error:
        if owed:
            sys.exit(f"sqlite: {error}")
        return
    if not owed:
        return
    if verdict != "ok":
        sys.exit(f"sqlite: {verdict}")
    missing = [n for n in printed if n not in kept]
    wrong = [n for n, value in kept.items() if value != row(n)]
    if missing or wrong:
        sys.exit(f"rows missing: {missing[:5]}, torn: {wrong[:5]}")


if sys.argv[1:2] == ["check"]:
    check(owed=sys.argv[2:] != ["off"] or os.environ["REM_BOOT"] == "resume")
else:
    work(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in the guest: writes to its disk through cuts, remembers all, and reads it back at the end.

Three loads in parallel, each of which the kernel may consider to be on media:
  pages   a file written back by sync_file_range(), which does not flush: the pages are clean
  sqlite  transactions with a full sync each
  names   small files, made with fsync and removed again

`disk_load.py DIR` works until DIR/stop exists, then drops the page cache, checks, and prints
`OK ...` or `TORN ...`. `disk_load.py DIR pages` runs only the first load, so that nothing flushes.
"""

import ctypes
import hashlib
import os
import sqlite3
import sys
import time

CHUNK_BYTES = 64 * 1024
CHUNKS = 64
NAMES = 50
WRITE_BACK = 7  # wait before, write, wait after


def chunk(number: int) -> bytes:
    seed = hashlib.sha256(b"%d" % number).digest()
    return seed * (CHUNK_BYTES // len(seed))


def write_back(fd: int, at: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    span = (ctypes.c_int64(at), ctypes.c_int64(CHUNK_BYTES), ctypes.c_uint(WRITE_BACK))
    if libc.sync_file_range(fd, *span):
        raise OSError(ctypes.get_errno(), "sync_file_range")


def make_name(name: str, value: bytes, and_remove: bool) -> None:
    with open(name, "wb") as file:
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
    if and_remove:
        os.unlink(name)


def work(folder: str, chunks: dict[int, int], rows: list[bytes], only_pages: bool) -> int:
    """Run until DIR/stop exists; return the number of rounds."""
    pages = os.open(f"{folder}/pages", os.O_RDWR | os.O_CREAT, 0o600)
    base = sqlite3.connect(f"{folder}/base", isolation_level=None)
    base.execute("PRAGMA synchronous=FULL")
    base.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, v BLOB)")
    number = 0
    while not os.path.exists(f"{folder}/stop"):
        slot = number % CHUNKS
        os.pwrite(pages, chunk(number), slot * CHUNK_BYTES)
        write_back(pages, slot * CHUNK_BYTES)
        chunks[slot] = number
        if not only_pages:
            value = hashlib.sha256(b"row %d" % number).digest()
            base.execute("INSERT INTO rows VALUES (?, ?)", (number, value))
            rows.append(value)
            make_name(f"{folder}/name-{number % NAMES}", value, number % 3 == 2)
        number += 1
        with open("/run/disk-load.new", "w", encoding="ascii") as file:  # in memory: the progress
            file.write(str(number))
        os.rename("/run/disk-load.new", "/run/disk-load")
        time.sleep(0.01)
    base.close()
    os.close(pages)
    return number


def torn(folder: str, chunks: dict[int, int], rows: list[bytes]) -> list[str]:
    """Compare the disk with what was written."""
    found = []
    with open(f"{folder}/pages", "rb") as file:
        for slot, number in sorted(chunks.items()):
            file.seek(slot * CHUNK_BYTES)
            if file.read(CHUNK_BYTES) != chunk(number):
                found.append(f"chunk {slot}")
    try:
        base = sqlite3.connect(f"{folder}/base")
        verdict = base.execute("PRAGMA integrity_check").fetchone()[0]
        kept = [row[0] for row in base.execute("SELECT v FROM rows ORDER BY n")]
    except sqlite3.Error as error:
        return [*found, f"sqlite: {error}"]
    if verdict != "ok":
        found.append(f"sqlite: {verdict}")
    if kept != rows:
        found.append(f"sqlite: {len(kept)} rows of {len(rows)}, or others")
    return found


def main(folder: str, only_pages: bool) -> None:
    os.makedirs(folder, exist_ok=True)
    chunks: dict[int, int] = {}
    rows: list[bytes] = []
    try:
        number = work(folder, chunks, rows, only_pages)
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
        found = torn(folder, chunks, rows)
    except (OSError, sqlite3.Error) as error:
        number, found = -1, [f"{type(error).__name__}: {error}"]
    if found:
        print(f"TORN rounds={number}: {'; '.join(found[:5])}", flush=True)
    else:
        print(f"OK rounds={number} chunks={len(chunks)} rows={len(rows)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["pages"])

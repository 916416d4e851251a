# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: things that must be there again after the machine was gone.

pm-check.py make WHERE ROWS   a database with that many committed rows
pm-check.py check WHERE ROWS  exit status 0 if each of them is there and the database is whole
pm-check.py tie NAME          a list tied by pointers in the raw segment NAME
pm-check.py follow NAME       follow the pointers; exit status 0 if the list is whole
"""

import ctypes
import mmap
import os
import sqlite3
import struct
import sys

NODES = 1000
NODE_BYTES = 64
MAP_SHARED, MAP_FIXED_NOREPLACE = 1, 0x100000
ADDRESS = 0x100000000000


def open_database(where: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"{where}/db", isolation_level=None)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=full")
    return database


def make(where: str, rows: int) -> None:
    database = open_database(where)
    database.execute("create table t (n integer primary key, v text)")
    for n in range(rows):
        database.execute("insert into t values (?, ?)", (n, f"value {n * 7}"))
    print(rows, flush=True)


def check(where: str, rows: int) -> None:
    if not os.path.exists(f"{where}/db"):
        sys.exit(f"{where}/db is gone")
    database = open_database(where)
    if database.execute("pragma integrity_check").fetchone() != ("ok",):
        sys.exit("integrity_check is not content")
    found = database.execute("select n, v from t order by n").fetchall()
    wanted = [(n, f"value {n * 7}") for n in range(rows)]
    if found[:rows] != wanted:
        sys.exit(f"{len(found)} rows, {rows} were acknowledged")
    print(f"{len(found)} rows")


def mapped(name: str) -> int:
    """The segment at its own address, as pm_map() does it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    fd = os.open(f"/dev/pm/{name}", os.O_RDWR)
    size = os.lseek(fd, 0, os.SEEK_END)
    flags = MAP_SHARED | MAP_FIXED_NOREPLACE
    at = libc.mmap(ADDRESS, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if at != ADDRESS:
        sys.exit(f"mapped at {at}")
    os.set_inheritable(fd, True)
    globals()["segment_fd"] = fd  # kept open for fsync()
    return int(at)


def tie(name: str) -> None:
    at = mapped(name)
    for n in range(NODES):
        # Spread over the segment, each pointing to the next by its address.
        here = at + n * 7919 % NODES * NODE_BYTES
        there = at + (n + 1) * 7919 % NODES * NODE_BYTES if n + 1 < NODES else 0
        ctypes.memmove(here, struct.pack("<QQ", there, n), 16)
    os.fsync(globals()["segment_fd"])


def follow(name: str) -> None:
    here = mapped(name)
    for n in range(NODES):
        there, value = struct.unpack("<QQ", ctypes.string_at(here, 16))
        if value != n:
            sys.exit(f"node {n} holds {value}")
        here = there
    if here:
        sys.exit("the list does not end")


if __name__ == "__main__":
    act, what = sys.argv[1], sys.argv[2]
    if act == "make":
        make(what, int(sys.argv[3]))
    elif act == "check":
        check(what, int(sys.argv[3]))
    elif act == "tie":
        tie(what)
    else:
        follow(what)

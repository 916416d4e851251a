# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In a guest: programs above stacked block devices and networks, each of which ends at once if it
reads what it has not written.

    stack_load.py files FOLDER...    records in a file of each folder, with fsync; earlier ones are
                                     read back past the page cache
    stack_load.py serve ADDRESS      answers each number with the next one
    stack_load.py ask ADDRESS        asks, by one connection that is never opened again

`files` and `ask` write how many turns they have done to /run/turns-FIRST_WORD_OF_THEIR_OWN.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import socket
import sys
from pathlib import Path

RECORD_BYTES = 64 << 10
RECORDS = 256  # of each file; then from its beginning again
PORT = 7777
TURN_S = 300.0  # a cut may lie between a question and its answer


def record(folder: str, number: int) -> bytes:
    seed = hashlib.sha256(f"{folder} {number}".encode()).digest()
    return seed * (RECORD_BYTES // len(seed))


def note(name: str, turns: int) -> None:
    new = Path(f"/run/turns-{name}.new")
    new.write_text(str(turns), encoding="ascii")
    new.replace(f"/run/turns-{name}")


def read_back(path: str, at: int) -> bytes:
    """Past the page cache."""
    buffer = mmap.mmap(-1, RECORD_BYTES)  # aligned, as direct I/O demands
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        count = os.preadv(file, [buffer], at)
    finally:
        os.close(file)
    return bytes(buffer[:count])


def files(folders: list[str]) -> None:
    written: dict[str, dict[int, int]] = {folder: {} for folder in folders}
    opened = {folder: os.open(f"{folder}/records", os.O_RDWR | os.O_CREAT) for folder in folders}
    rng = random.Random(1)
    turns = 0
    while True:
        turns += 1
        for folder, file in opened.items():
            slot = turns % RECORDS
            os.pwrite(file, record(folder, turns), slot * RECORD_BYTES)
            os.fsync(file)
            written[folder][slot] = turns
            slot = rng.choice(list(written[folder]))
            found = read_back(f"{folder}/records", slot * RECORD_BYTES)
            if found != record(folder, written[folder][slot]):
                sys.exit(f"{folder}: record {slot} is not that of turn {written[folder][slot]}")
        note("files", turns)


def serve(address: str) -> None:
    with socket.create_server((address, PORT)) as server:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                lines.write(f"{int(line) + 1}\n")
                lines.flush()


def ask(address: str) -> None:
    with socket.create_connection((address, PORT), TURN_S) as connection:
        lines = connection.makefile("rw")
        number = 0
        while True:
            lines.write(f"{number}\n")
            lines.flush()
            if (answer := lines.readline().strip()) != str(number + 1):
                sys.exit(f"{answer!r} is not the answer to {number}")
            number += 1
            note(f"ask-{address}", number)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "files":
        files(words)
    else:
        {"serve": serve, "ask": ask}[what](words[0])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ext4 itself: big files, new names, renames and removals, each made durable by fsync of file and
directory. `files.py` prints `NUMBER` for each file that is durable; `files.py check` reads these
lines and checks the newest files, which have not been removed.
"""

import hashlib
import os
import sys

FILE_BYTES = 1 << 20
KEPT = 40


def content(number: int) -> bytes:
    seed = hashlib.sha256(b"%d" % number).digest()
    return seed * (FILE_BYTES // len(seed))


def make(number: int, folder: int) -> None:
    name = f"file-{number}"
    with open("new", "wb") as file:
        file.write(content(number))
        file.flush()
        os.fsync(file.fileno())
    os.rename("new", name)
    if number >= 2 * KEPT:
        os.unlink(f"file-{number - 2 * KEPT}")
    os.fsync(folder)


def work() -> None:
    folder = os.open(".", os.O_RDONLY)
    number = 0
    while True:
        make(number, folder)
        print(number, flush=True)
        number += 1


def check() -> None:
    printed = [int(line) for line in sys.stdin]
    last = printed[-1] if printed else -1
    for number in range(max(0, last - KEPT + 1), last + 1):
        try:
            with open(f"file-{number}", "rb") as file:
                found = file.read()
        except FileNotFoundError:
            sys.exit(f"file {number} was durable and is missing")
        if found != content(number):
            sys.exit(f"file {number} is torn")


if sys.argv[1:] == ["check"]:
    check()
else:
    work()

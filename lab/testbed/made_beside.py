# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: `made_beside.py FOLDER`. Some processes make and remove files, which nobody
syncs, while one syncs a file of its own again and again.
"""

import os
import sys

MAKERS = 3
REMOVES_EACH, BACK = 5, 3


def make(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    number = 0
    while True:
        os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY))
        number += 1
        if number % REMOVES_EACH == 0:
            os.unlink(f"{folder}/{number - BACK}")


def main() -> None:
    (folder,) = sys.argv[1:]
    for maker in range(MAKERS):
        if not os.fork():
            make(f"{folder}/{maker}")
    fd = os.open(f"{folder}/synced", os.O_CREAT | os.O_WRONLY)
    while True:
        os.pwrite(fd, b"x" * 100, 0)
        os.fsync(fd)


main()

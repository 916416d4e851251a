#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""New files on a disk whose flushes end in memory. A line `N` stands for N steps that are durable.

Step N writes a file under another name, syncs it, renames it to its own and syncs the folder; each
fourth step also removes the file of three steps before. After a boot that does not resume the check
has rem-replay write what the registry has kept; what the disk's cache has lost the kernel has
written before. Then each file is there and has its content, or was removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys

REMOVES_EACH, BACK = 4, 3
STATE = "/sys/kernel/remanence/persist/state"
DISK = "/sys/block/vda/stat"
FLUSHES = 15  # field of the disk's statistics
FIRST = 8  # steps


def content(step: int) -> bytes:
    return hashlib.shake_128(str(step).encode()).digest(1 + step * 737 % 12_000)


def removed_by(file: int) -> int | None:
    """The step that removes a file."""
    return file + BACK if (file + BACK) % REMOVES_EACH == 0 else None


def flushes() -> int:
    with open(DISK, encoding="ascii") as file:
        return int(file.read().split()[FLUSHES])


def work() -> None:
    with open(STATE, encoding="ascii") as where:
        if (state := where.read().strip()) != "memory":
            sys.exit(f"fsync does not end in memory: {state}")
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder)
    before, step = flushes(), 0
    while True:
        step += 1
        file = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        os.write(file, content(step))
        os.fsync(file)
        os.close(file)
        os.rename("new", str(step))
        if step % REMOVES_EACH == 0:
            os.unlink(str(step - BACK))
        os.fsync(folder)
        if step == FIRST and flushes() - before >= FIRST:
            sys.exit("flushes have gone to the disk")
        if step >= FIRST:  # no Stop comes before the first line
            print(step, flush=True)


def check() -> None:
    if os.environ["REM_BOOT"] == "cold":
        done = subprocess.run(["rem-replay", "--json"], capture_output=True, text=True)
        report = json.loads(done.stdout) if done.stdout else {"failed": done.stderr}
        if report["failed"] or report["damaged"]:
            sys.exit(f"rem-replay: {report}")
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        if damaged := re.findall(r"redo: .* written again, ([1-9]\d*) were damaged", log):
            sys.exit(f"of what flushes had promised {damaged[0]} writes are damaged")
    durable = max((int(line) for line in sys.stdin), default=0)
    for file in range(1, durable + 1):
        removed = removed_by(file)
        if removed is not None:
            if removed <= durable and os.path.exists(str(file)):
                sys.exit(f"file {file} was removed by step {removed}, and is there")
            continue
        try:
            with open(str(file), "rb") as stored:
                found = stored.read()
        except FileNotFoundError:
            sys.exit(f"file {file} is not there, and {durable} steps were durable")
        if found != content(file):
            sys.exit(f"file {file} has {len(found)} bytes, which are not its own")


if sys.argv[1:] == ["check"]:
    check()
else:
    work()

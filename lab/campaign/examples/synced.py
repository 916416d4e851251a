#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages of files whose fsync ends in memory. A line `FILE PAGE VERSION` stands for a page whose
fsync has ended.

After a boot that does not resume the check has rem-replay write what the registry has kept; then
each word of each page must be of the version that was promised, or of the one that was on its way.
Nothing else goes to the disk: the workload ends if fsync does not end in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

PAGE_BYTES = 4096
FILES, PAGES = 4, 32
WORD = b"%07d,%07d;"
WORD_BYTES = 16
STATE = "/sys/kernel/remanence/persist/state"
COUNTS = "/sys/kernel/remanence/persist/counts"


def content(page: int, version: int) -> bytes:
    return WORD % (page, version) * (PAGE_BYTES // WORD_BYTES)


def ended_in_memory() -> int:
    with open(COUNTS, encoding="ascii") as file:
        return int(dict(line.split() for line in file)["in_memory"])


def work() -> None:
    with open(STATE, encoding="ascii") as where:
        if (state := where.read().strip()) != "memory":
            sys.exit(f"fsync does not end in memory: {state}")
    files = []
    for number in range(FILES):
        file = os.open(f"file-{number}", os.O_CREAT | os.O_RDWR, 0o600)
        for page in range(PAGES):
            os.pwrite(file, content(page, 0), page * PAGE_BYTES)
        os.fsync(file)  # the first one of a file is the file system's own
        files.append(file)
    os.sync()
    done, version = ended_in_memory(), 0
    while True:
        version += 1
        number, page = version % FILES, version * 7 % PAGES
        os.pwrite(files[number], content(page, version), page * PAGE_BYTES)
        os.fsync(files[number])
        if version == 1 and ended_in_memory() == done:
            sys.exit("an fsync has not ended in memory")
        print(number, page, version, flush=True)


def check() -> None:
    if os.environ["REM_BOOT"] == "cold":
        done = subprocess.run(["rem-replay", "--json"], capture_output=True, text=True)
        report = json.loads(done.stdout) if done.stdout else {"failed": done.stderr}
        if report["failed"]:
            sys.exit(f"rem-replay: {report}")
    promised: dict[tuple[int, int], int] = {}
    for line in sys.stdin:
        number, page, version = (int(word) for word in line.split())
        promised[number, page] = max(version, promised.get((number, page), 0))
    for (number, page), version in promised.items():
        with open(f"file-{number}", "rb") as file:
            file.seek(page * PAGE_BYTES)
            found = file.read(PAGE_BYTES)
        words = {found[at : at + WORD_BYTES] for at in range(0, PAGE_BYTES, WORD_BYTES)}
        for word in words:
            if len(word) != WORD_BYTES or not word.startswith(b"%07d," % page):
                sys.exit(f"page {page} of file {number} has {word!r}")
            if int(word[8:15]) < version:
                sys.exit(
                    f"page {page} of file {number} has version {int(word[8:15])}, not {version}"
                )


if sys.argv[1:] == ["check"]:
    check()
else:
    work()

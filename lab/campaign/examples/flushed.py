#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""New files on a disk whose flushes end in memory. A line `N` stands for N steps of new_files.py
that are durable.

After a boot that does not resume the check has rem-replay write what the registry has kept; what
the disk's cache has lost the kernel has written before. Then each file is there and has its
content, or was removed.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

FILES = runpy.run_path("/usr/local/bin/new_files.py")
FOLDER = Path("files")
STATE = Path("/sys/kernel/remanence/persist/state")
DISK = Path("/sys/block/vda/stat")
FLUSHES = 15  # field of the disk's statistics
FIRST = 8  # steps


def flushes() -> int:
    return int(DISK.read_text(encoding="ascii").split()[FLUSHES])


def work() -> None:
    if (state := STATE.read_text(encoding="ascii").strip()) != "memory":
        sys.exit(f"fsync does not end in memory: {state}")
    before = flushes()
    for step in FILES["made"](FOLDER):
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
    if lost := FILES["lost"](FOLDER, durable):
        sys.exit("; ".join(lost))


if sys.argv[1:] == ["check"]:
    check()
else:
    work()

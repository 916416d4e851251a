#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two programs with a page each, which they read all the time.

    in_guest.py FOLDER

victim.page and other.page in that folder have what their pages hold, backwards; NAME.reads is
renewed with how often one has found its page right, and NAME.end says how it ended.
"""

import mmap
import os
import subprocess
import sys
from pathlib import Path

PAGE_BYTES = 4096
READS = 1000  # between two words of them


def write(path: Path, text: str) -> None:
    """As a whole."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def reader(folder: Path, name: str, cpu: int) -> None:
    """Reads its page until that is wrong, or the kernel ends it."""
    os.sched_setaffinity(0, {cpu})
    # Backwards: what the file held stays in memory that is free.
    content = (folder / f"{name}.page").read_bytes()[::-1]
    memory = mmap.mmap(-1, PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = content
    reads = 0
    while memory[:] == content:
        reads += 1
        if reads % READS == 0:
            write(folder / f"{name}.reads", str(reads))
    sys.exit(1)


def main() -> None:
    folder = Path(sys.argv[1])
    names = ("victim", "other")
    words = [sys.executable, __file__, str(folder)]
    programs = {name: subprocess.Popen([*words, name, str(cpu)]) for cpu, name in enumerate(names)}
    while programs:
        pid, status = os.wait()
        (name,) = (name for name, program in programs.items() if program.pid == pid)
        del programs[name]
        write(folder / f"{name}.end", str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        reader(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    main()

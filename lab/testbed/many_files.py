# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: keeps many files dirty, and syncs one here and there.

    many_files.py run FOLDER FILES         prints `ack FILE N`: version N of it is durable; no end
    many_files.py check FOLDER ACKS.json   prints JSON: what of it is not there

Each eight bytes of a file have its number and a version of it. A file is written whole, so after a
crash it may have any versions from the last acknowledged one on. It uses nothing of the laboratory:
Python 3.11 is enough.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from pathlib import Path

WORDS = 1024  # of a file: two pages
WORD = struct.Struct("<IHH")  # version, file, MAGIC
MAGIC = 0x5EED
HOT = 50  # files that are written more often, so that their fsyncs end in memory
SYNC_EACH = 3  # on average; all other files stay dirty


def content(file: int, version: int) -> bytes:
    return WORD.pack(version, file, MAGIC) * WORDS


def run(folder: Path, files: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    opened = [os.open(folder / str(file), os.O_RDWR | os.O_CREAT, 0o640) for file in range(files)]
    for file, fd in enumerate(opened):
        os.pwrite(fd, content(file, 1), 0)
    os.sync()
    versions = [1] * files
    for file, fd in enumerate(opened):
        os.fsync(fd)
        versions[file] += 1
        os.pwrite(fd, content(file, versions[file]), 0)
    draw = random.Random(1)
    while True:
        file = draw.randrange(HOT if draw.randrange(5) else files)
        versions[file] += 1
        os.pwrite(opened[file], content(file, versions[file]), 0)
        if draw.randrange(SYNC_EACH) == 0:
            os.fsync(opened[file])
            print(f"ack {file} {versions[file]}", flush=True)


def problem(seen: bytes, file: int, acked: int) -> str | None:
    """What is wrong with a file of which a version was acknowledged, or None."""
    if len(seen) != WORDS * WORD.size:
        return f"file {file}: {len(seen)} bytes"
    for at, (version, its_file, magic) in enumerate(WORD.iter_unpack(seen)):
        if magic != MAGIC or its_file != file:
            return f"file {file}: word {at} is of no version"
        if version < acked:
            return f"file {file}: word {at} is of version {version}, {acked} was acknowledged"
    return None


def check(folder: Path, acks: dict[str, int]) -> dict[str, object]:
    lost = []
    for path in sorted(folder.iterdir()):
        file = int(path.name)
        if found := problem(path.read_bytes(), file, acks.get(path.name, 1)):
            lost.append(found)
    return {"files": len(list(folder.iterdir())), "acked": len(acks), "lost": lost[:20]}


def main() -> None:
    what, folder, last = sys.argv[1:]
    if what == "check":
        print(json.dumps(check(Path(folder), json.loads(Path(last).read_text()))))
    else:
        run(Path(folder), int(last))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: makes files as a mail server does, each with a first fsync, and removes some.

    new_files.py run FOLDER [STEPS]   prints `ack files N`: N steps are durable; STEPS: its end
    new_files.py check FOLDER N       prints JSON: what of it is not there

Step N writes a file under another name, syncs it, renames it to its own and syncs the folder. Each
fourth step also removes the file of three steps before. It uses nothing of the laboratory: Python
3.11 is enough.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

REMOVES_EACH, BACK = 4, 3
AHEAD = 400  # steps that may be done and whose acknowledgement was not heard


def content(step: int) -> bytes:
    return hashlib.shake_128(str(step).encode()).digest(1 + step * 737 % 12_000)


def removed_by(file: int) -> int | None:
    """The step that removes a file."""
    return file + BACK if (file + BACK) % REMOVES_EACH == 0 else None


def made(folder: Path) -> Iterator[int]:
    """Make files for ever; each step that it returns is durable."""
    folder.mkdir(parents=True, exist_ok=True)
    names = os.open(folder, os.O_RDONLY)
    os.fsync(names)
    for step in itertools.count(1):
        fd = os.open(folder / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        os.write(fd, content(step))
        os.fsync(fd)
        os.close(fd)
        os.rename(folder / "new", folder / str(step))
        if step % REMOVES_EACH == 0:
            os.unlink(folder / str(step - BACK))
        os.fsync(names)
        yield step


def run(folder: Path, steps: int) -> None:
    for step in made(folder):
        print(f"ack files {step}", flush=True)
        if step == steps:
            break


def lost(folder: Path, acked: int) -> list[str]:
    found = []
    for file in range(1, acked + AHEAD):
        path = folder / str(file)
        removed = removed_by(file)
        if removed is not None and removed <= acked:
            if path.exists():
                found.append(f"{file}: it was removed by step {removed}, and is there")
        elif path.exists():
            if file <= acked and path.read_bytes() != content(file):
                found.append(f"{file}: {path.stat().st_size} bytes, which are not its own")
        elif file <= acked and (removed is None or removed > acked + AHEAD):
            found.append(f"{file}: it is not there, and {acked} steps were acknowledged")
    return found


def main(mode: str, folder: str, *words: str) -> None:
    if mode == "run":
        run(Path(folder), int(words[0]) if words else -1)
        return
    print(json.dumps({"lost": lost(Path(folder), int(words[0]))}))


if __name__ == "__main__":
    main(*sys.argv[1:])

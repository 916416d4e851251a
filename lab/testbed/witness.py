# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: changes files in every way there is, and says what each sync has promised.

    witness.py run FOLDER SEED FILES       prints `ack FILE N`: after N steps all is synced; no end
    witness.py sweep FOLDER SEED FILES     the same; some by syncfs(2), which is of all files
    witness.py check FOLDER SEED ACKS.json   prints JSON: what of it is not there

A file's steps follow from the seed. One step changes it and then syncs it, so after a crash a file
must be as after one of the steps from the last acknowledged on; bytes of the step that was under
way may be old or new. It uses nothing of the laboratory: Python 3.11 is enough.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_MAX = 256 << 10
PAGE = 4096
AHEAD = 400  # steps that may be done and whose acknowledgement was not heard
PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
ZERO = 0x10  # FALLOC_FL_ZERO_RANGE
KINDS = (
    ["write"] * 8 + ["append"] * 4 + ["twice"] * 2
    + ["mapped"] * 2 + ["swept"] * 2
    + ["behind", "dsync", "shrink", "grow", "punch", "zero", "direct", "touch"]
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One change of a file, and the sync that follows it."""

    kind: str
    at: int
    count_bytes: int
    seed: bytes
    data_only: bool

    def data(self, turn: int = 0) -> bytes:
        return hashlib.shake_128(self.seed + bytes([turn])).digest(self.count_bytes)


def step_of(seed: str, file: int, number: int, size_bytes: int) -> Step:
    draw = random.Random(f"{seed}/{file}/{number}")
    kind = draw.choice(KINDS)
    if size_bytes < 4 * PAGE:
        kind = "append"
    elif kind == "append" and size_bytes > FILE_MAX:
        kind = "shrink"
    at, count = draw.randrange(size_bytes + 1), draw.randrange(1, 9000)
    if kind == "append":
        at = size_bytes
    if kind == "grow":
        at, count = size_bytes, draw.randrange(1, 20000)
    if kind == "shrink":
        at, count = draw.randrange(2 * PAGE, size_bytes), 0
    if kind in ("punch", "zero", "mapped", "write", "twice", "dsync", "swept", "behind"):
        at = min(at, size_bytes - 1)
        count = min(count, size_bytes - at)
    if kind == "direct":
        at, count = at // PAGE * PAGE, PAGE * draw.randrange(1, 4)
    return Step(kind, at, count, f"{seed}/{file}/{number}".encode(), draw.random() < 0.5)


def applied(content: bytes, step: Step) -> bytes:
    """The content of a file after a step."""
    if step.kind == "touch":
        return content
    if step.kind == "shrink":
        return content[: step.at]
    data = step.data(int(step.kind == "twice"))
    if step.kind in ("punch", "zero", "grow"):
        data = bytes(step.count_bytes)
    return content[: step.at] + data + content[step.at + step.count_bytes :]


def do(fd: int, direct: int, step: Step, libc: ctypes.CDLL) -> None:
    kind, at = step.kind, step.at
    if kind in ("write", "append", "twice", "dsync", "swept", "behind"):
        os.pwrite(fd, step.data(), at)
        if kind == "twice":
            os.fsync(fd)
            os.pwrite(fd, step.data(1), at)
        if kind == "behind":
            store_behind_the_end(fd)
    elif kind == "mapped":
        with mmap.mmap(fd, os.fstat(fd).st_size) as seen:
            seen[at : at + step.count_bytes] = step.data()
            start = at // PAGE * PAGE
            seen.flush(start, at + step.count_bytes - start)
    elif kind == "direct":
        with mmap.mmap(-1, step.count_bytes) as aligned:
            aligned[:] = step.data()
            os.pwrite(direct, aligned, at)
    elif kind in ("shrink", "grow"):
        os.ftruncate(fd, at + step.count_bytes)
    elif kind == "touch":
        os.fchmod(fd, 0o600 if step.data_only else 0o640)
    else:
        mode = PUNCH if kind == "punch" else ZERO
        if libc.fallocate(fd, mode, ctypes.c_long(at), ctypes.c_long(step.count_bytes)):
            raise OSError(ctypes.get_errno(), f"fallocate: {kind}")


def store_behind_the_end(fd: int) -> None:
    """In the file's last page, where a file has nothing: nobody finds it there later."""
    size = os.fstat(fd).st_size
    with mmap.mmap(fd, size) as seen:
        first = ctypes.c_char.from_buffer(seen)
        ctypes.memset(ctypes.addressof(first) + size, ord("z"), -size % PAGE)
        del first


def run(folder: Path, seed: str, file: int, sweeps: bool, say: Callable[[str], None]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    path = folder / str(file)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    synced = [os.open(path, os.O_RDWR | how) for how in (os.O_SYNC, os.O_DSYNC)]
    direct = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.fsync(fd)
    number = 0
    while True:
        step = step_of(seed, file, number, os.fstat(fd).st_size)
        if step.kind == "dsync":
            do(synced[step.data_only], direct, step, libc)
        else:
            do(fd, direct, step, libc)
            if step.kind == "swept" and sweeps:
                if libc.syncfs(fd):
                    raise OSError(ctypes.get_errno(), "syncfs")
            elif step.kind != "mapped":
                (os.fdatasync if step.data_only else os.fsync)(fd)
        number += 1
        say(f"ack {file} {number}")


def states(seed: str, file: int) -> Iterator[bytes]:
    content = b""
    number = 0
    while True:
        yield content
        content = applied(content, step_of(seed, file, number, len(content)))
        number += 1


def between(seen: bytes, old: bytes, step: Step) -> bool:
    """Whether a file may be like this while a step of *old* is under way, or done."""
    new = applied(old, step)
    if seen == new:
        return True
    versions, end = [old, new], step.at + step.count_bytes
    if step.kind == "twice":
        versions.append(applied(old, Step("write", step.at, step.count_bytes, step.seed, False)))
    if step.kind == "shrink":
        # ext4 writes zeros behind the new end, up to the next block, before the size.
        end = min(len(old), -(-step.at // PAGE) * PAGE)
        versions[1] = old[: step.at] + bytes(end - step.at) + old[end:]
    # A file that grows may have grown by a part.
    sizes = sorted(len(one) for one in versions)
    if not sizes[0] <= len(seen) <= sizes[-1]:
        return False
    fitted = [one[: len(seen)].ljust(len(seen), b"\0") for one in versions]
    if seen[: step.at] != fitted[1][: step.at] or seen[end:] != fitted[1][end:]:
        return False
    parts = [one[step.at : end] for one in fitted]
    return all(byte in some for byte, *some in zip(seen[step.at : end], *parts, strict=True))


def problem(seen: bytes, seed: str, file: int, acked: int) -> str | None:
    """What is wrong with a file of which *acked* steps were acknowledged, or None."""
    content = b""
    for number in range(acked + AHEAD):
        step = step_of(seed, file, number, len(content))
        if number >= acked and between(seen, content, step):
            return None
        content = applied(content, step)
    wanted = content_after(seed, file, acked)
    pairs = enumerate(zip(seen, wanted, strict=False))
    where = next((at for at, (found, asked) in pairs if found != asked), None)
    return (
        f"file {file}: as after none of the steps from {acked} on: {len(seen)} bytes instead of "
        f"{len(wanted)}, first difference at {where}"
    )


def content_after(seed: str, file: int, steps: int) -> bytes:
    for number, content in enumerate(states(seed, file)):
        if number == steps:
            return content
    return b""


def check(folder: Path, seed: str, acks: dict[str, int]) -> dict[str, object]:
    lost = []
    for name, acked in acks.items():
        path = folder / name
        if not path.exists():
            lost.append(f"file {name}: is not there")
        elif found := problem(path.read_bytes(), seed, int(name), acked):
            lost.append(found)
    return {"files": len(acks), "lost": lost}


def main() -> None:
    what, folder, seed, last = sys.argv[1:]
    if what == "check":
        print(json.dumps(check(Path(folder), seed, json.loads(Path(last).read_text()))))
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    lock = threading.Lock()

    def say(line: str) -> None:
        with lock:
            print(line, flush=True)

    for file in range(int(last)):
        words = (Path(folder), seed, file, what == "sweep", say)
        threading.Thread(target=run, args=words).start()


if __name__ == "__main__":
    main()

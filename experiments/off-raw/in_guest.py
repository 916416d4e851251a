# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: what is found of a text store of which bytes were lost. One line of JSON.

in_guest.py install STORE          a few programs; what they print, and their texts, are kept
in_guest.py look DEVICE PATH OPTIONS   mounts it, checks and starts each program, unmounts it
in_guest.py overwritten DEVICE BYTES   the same for each piece of the device, with a pattern over it
in_guest.py short DEVICE BYTES         the same with nothing from each piece on

Each start checks the text (`strict=1`), and no text is held between two of them (`keep=0`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOME = Path("/root/o")
KEPT = Path("/root/kept.json")
PARAMETERS = Path("/sys/module/binfmt_off2f/parameters")
PROGRAMS = {
    "perl": ["/usr/bin/perl", "-v"],
    "redis-server": ["/usr/bin/redis-server", "--version"],
    "sqlite3": ["/usr/bin/sqlite3", "-version"],
}
PATH = "/nvm"  # where the store is when programs are installed
OPTIONS = "dax=always,noatime"
PATTERN = b"\xa5"
LIMIT_S = 60
READ_BYTES = 1 << 20

Found = dict[str, Any]


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          check=False, timeout=LIMIT_S)  # fmt: skip


def digests(about: Found) -> list[str]:
    """Of a whole XYZ, and of the texts in it; OSError if it cannot be read."""
    data = Path(about["xyz"]).read_bytes()
    texts = hashlib.sha256()
    for text in about["texts"]:
        texts.update(data[text["xyz_offset"] : text["xyz_offset"] + text["bytes"]])
    return [hashlib.sha256(data).hexdigest(), texts.hexdigest()]


def install(store: str) -> Found:
    HOME.mkdir(exist_ok=True)
    kept = {}
    for name, (elf, *words) in PROGRAMS.items():
        made = command("off2f", "install", elf, "--to", HOME / name, "--store", store)
        if made.returncode:
            sys.exit(made.stderr)
        about = json.loads(command("off2f", "info", HOME / name, "--json").stdout)
        printed = command(elf, *words).stdout
        kept[name] = {"about": about, "digests": digests(about), "printed": printed}
    KEPT.write_text(json.dumps(kept))
    return {name: one["about"]["xyz_bytes"] for name, one in kept.items()}


def start(name: str, printed: str) -> str:
    """`same` or `other` output, or the name of errno."""
    words = [f"{HOME}/{name}", *PROGRAMS[name][1:]]
    try:
        done = command(*words)
    except subprocess.TimeoutExpired:
        return "other"
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "same" if done.stdout == printed and done.returncode == 0 else "other"


def state(name: str, kept: Found) -> Found:
    """Of one program: its bytes, what `off2f verify` says of them, how a start ends."""
    try:
        now = digests(kept["about"])
    except OSError:
        now = ["", ""]
    whole = [mine == theirs for mine, theirs in zip(now, kept["digests"], strict=True)]
    verified = command("off2f", "verify", HOME / name).returncode == 0
    started = start(name, kept["printed"])
    return {"file": whole[0], "text": whole[1], "verified": verified, "started": started}


def look(device: str, path: str = PATH, options: str = OPTIONS) -> Found:
    os.makedirs(path, exist_ok=True)
    command("dmesg", "-C")
    mounted = command("mount", "-o", options, device, path)
    kept = json.loads(KEPT.read_text())
    found = {name: state(name, one) for name, one in kept.items()}
    if mounted.returncode == 0:
        command("umount", path)
    if os.path.ismount(path):
        sys.exit(f"{path} cannot be unmounted")
    lines = command("dmesg").stdout.splitlines()
    return {
        "mounted": mounted.returncode == 0,
        "said": [line.partition("binfmt_off2f: ")[2] for line in lines if "binfmt_off2f" in line],
        "programs": found,
    }


class Device:
    """A block device, past the kernel's cache."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.size = os.lseek(self.file, 0, os.SEEK_END)

    def read(self) -> bytes:
        with mmap.mmap(-1, READ_BYTES) as room:  # aligned, as direct reads have to be
            parts = []
            for at in range(0, self.size, READ_BYTES):
                count = os.preadv(self.file, [room], at)
                parts.append(room[:count])
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        with mmap.mmap(-1, self.size) as room:
            room[:] = data
            if os.pwritev(self.file, [room], 0) != self.size:
                sys.exit("the device took less than was written")


def overwritten(data: bytes, at: int, count: int) -> bytes:
    return data[:at] + PATTERN * count + data[at + count :]


def short(data: bytes, at: int, count: int) -> bytes:
    return data[:at] + bytes(len(data) - at)


@contextlib.contextmanager
def spoilt(path: str, data: bytes, as_it_was: bytes) -> Iterator[None]:
    device = Device(path)
    device.write(data)
    os.close(device.file)
    try:
        yield
    finally:
        device = Device(path)
        device.write(as_it_was)
        os.close(device.file)


def each(path: str, piece_bytes: int, way: str) -> list[Found]:
    """What is found when each piece in turn was spoilt; the device is as before at the end."""
    device = Device(path)
    data = device.read()
    os.close(device.file)
    spoil = overwritten if way == "overwritten" else short
    found: list[Found] = []
    for at in range(0, len(data), piece_bytes):
        with spoilt(path, spoil(data, at, piece_bytes), data):
            seen = look(path)
        del seen["said"]
        found.append({"at": at, **seen})
    return found


def main(order: str, *words: str) -> None:
    (PARAMETERS / "keep").write_text("0")
    (PARAMETERS / "strict").write_text("1")
    found: Found | list[Found]
    if order == "install":
        found = install(*words)
    elif order == "look":
        found = look(*words)
    else:
        found = each(words[0], int(words[1]), order)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

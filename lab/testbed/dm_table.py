#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in the guest, which has no dmsetup: the ioctls of the device mapper that the tests need.

`create NAME TABLE`, `swap NAME TABLE` (suspend, load, resume), `status NAME`, `remove NAME`. If the
kernel refuses, it prints the name of the errno and exits with 1.
"""

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Callable

HEADER = struct.Struct("=3I 3I i 3I Q 128s 129s 7x")
SPEC = struct.Struct("=2Q i I 16s")
BYTES = 16 * 1024
VERSION = (4, 0, 0)
SUSPEND = 1 << 1
CREATE, REMOVE, RESUME, LOAD, STATUS = 3, 4, 6, 9, 12


def dm(command: int, name: str, payload: bytes = b"", flags: int = 0) -> tuple[int, bytes]:
    """One ioctl; return the device's number and the data after the header."""
    head = HEADER.pack(
        *VERSION, BYTES, HEADER.size, 1 if payload else 0, 0, flags, 0, 0, 0, name.encode(), b""
    )
    buffer = bytearray((head + payload).ljust(BYTES, b"\0"))
    number = 3 << 30 | HEADER.size << 16 | 0xFD << 8 | command
    with open("/dev/mapper/control", "rb", buffering=0) as control:
        fcntl.ioctl(control, number, buffer)
    return HEADER.unpack_from(buffer)[10], bytes(buffer[HEADER.unpack_from(buffer)[4] :])


def load(name: str, table: str) -> None:
    start, sectors, target, *words = table.split()
    text = " ".join(words).encode() + b"\0"
    text += bytes(-len(text) % 8)
    spec = SPEC.pack(int(start), int(sectors), 0, SPEC.size + len(text), target.encode())
    dm(LOAD, name, spec + text)


def create(name: str, table: str) -> None:
    """Create a device and print its path."""
    device, _ = dm(CREATE, name)
    try:
        load(name, table)
        dm(RESUME, name)
    except OSError:
        dm(REMOVE, name)
        raise
    print(f"/dev/dm-{os.minor(device)}")


def swap(name: str, table: str) -> None:
    load(name, table)
    dm(RESUME, name, flags=SUSPEND)
    dm(RESUME, name)


def status(name: str) -> None:
    _, data = dm(STATUS, name)
    print(data[SPEC.size :].split(b"\0", 1)[0].decode())


def remove(name: str) -> None:
    dm(REMOVE, name)


def main(command: str, *words: str) -> None:
    does: dict[str, Callable[..., None]] = {
        "create": create,
        "swap": swap,
        "status": status,
        "remove": remove,
    }
    try:
        does[command](*words)
    except OSError as error:
        sys.exit(errno.errorcode.get(error.errno or 0, str(error)))


if __name__ == "__main__":
    main(*sys.argv[1:])

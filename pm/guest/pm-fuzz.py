# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: ioctls of the three devices with arguments that make no sense, from a fixed seed.

pm-fuzz.py SEED CALLS WRITABLE   WRITABLE: 1 as root, 0 with rights dropped
Exit status 0; what the kernel thinks of it is looked up in its log afterwards.
"""

import ctypes
import os
import random
import sys

DEVICES = ("/dev/pmctl", "/dev/pmbc", "/dev/pmramd")
NAMES = (b"fuzz", b"fuzzblk", b"two", b"", b"x" * 64, b"../etc", b"\xff\xfe")
# Numbers and sizes as in rem_pm_uapi.h, and some that are not there.
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 32, 33, 34, 35, 36, 37, 38, 64, 65, 10, 0, 255)
SIZES = {1: 192, 2: 184, 3: 184, 4: 184, 5: 184, 6: 184, 7: 8, 8: 192, 32: 160, 33: 80, 34: 80}
SIZES |= {9: 184, 35: 160, 36: 88, 37: 80, 38: 72, 64: 96, 65: 96}
LIBC = ctypes.CDLL(None)
WORDS = (0, 1, 2, 3, 511, 512, 4095, 4096, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 64) - 1)


def argument(rng: random.Random, size_bytes: int) -> bytes:
    name = rng.choice(NAMES)[:64].ljust(64, b"\0")
    words = b"".join(
        (rng.choice(WORDS) if rng.random() < 0.7 else 0).to_bytes(8, "little") for _ in range(32)
    )
    return (name + words)[: max(size_bytes, 8)].ljust(512, b"\0")


def main(seed: int, calls: int, writable: bool) -> None:
    rng = random.Random(seed)
    if not writable:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    files = {}
    for device in DEVICES:
        try:
            files[device] = os.open(device, os.O_RDWR)
        except PermissionError:
            continue
    for _ in range(calls if files else 0):
        number = rng.choice(NUMBERS)
        size_bytes = SIZES.get(number, rng.randrange(0, 300))
        if rng.random() < 0.1:
            size_bytes = rng.randrange(0, 300)
        command = rng.randrange(4) << 30 | size_bytes << 16 | 0xB7 << 8 | number
        if number in SIZES:
            for direction in (1, 2, 3):  # the right one is among them
                command = direction << 30 | size_bytes << 16 | 0xB7 << 8 | number
                call(rng, files, command, size_bytes)
        else:
            call(rng, files, command, size_bytes)


def call(rng: random.Random, files: dict[str, int], command: int, size_bytes: int) -> None:
    buffer = ctypes.create_string_buffer(argument(rng, size_bytes), 512)
    where = rng.choice((buffer, buffer, buffer, 0, 1, (1 << 47) - 8))
    address = ctypes.addressof(where) if isinstance(where, ctypes.Array) else where
    fd = rng.choice(list(files.values()))
    # Through libc, for addresses that are none; what it returns is not looked at.
    LIBC.ioctl(ctypes.c_int(fd), ctypes.c_ulong(command), ctypes.c_void_p(address))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1")

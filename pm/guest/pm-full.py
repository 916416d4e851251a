# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: segments come, grow and go in a region that is full, for ever.

pm-full.py work SEED   a line for each time that there was no space; to the standard output
pm-full.py check       exit status 0 if each segment f* holds what its name says
pm-full.py spoil       one wrong byte in the oldest of them; again: it is right again

A segment is filled with its own name. The one that was being made or grown when the power went has
its name up to somewhere, and zeros behind. Of all others each byte is there.
"""

import errno
import os
import random
import sys

import pm

UNIT = 4096
LARGEST = 48  # units
LINE = 64


def content(name: str, size_bytes: int) -> bytes:
    return name.encode().ljust(LINE, b".") * (size_bytes // LINE)


def fill(name: str, size_bytes: int) -> None:
    """Durable on return."""
    with open(f"/dev/pm/{name}", "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), content(name, size_bytes), 0)
        os.fsync(file.fileno())


def names(service: pm.Service) -> dict[str, int]:
    found = {segment.name.decode(): int(segment.bytes) for segment in service}
    return {name: size_bytes for name, size_bytes in found.items() if name.startswith("f")}


def step(service: pm.Service, rng: random.Random, own: list[str], number: int) -> None:
    size_bytes = rng.randrange(1, LARGEST) * UNIT
    if own and rng.random() < 0.3:
        name = rng.choice(own)
        size_bytes += int(service.get(name).bytes)
        service.resize(name, size_bytes)
    else:
        name = f"f{number}"
        service.create(name, size_bytes)
        own.append(name)
    fill(name, size_bytes)


def work(seed: int) -> None:
    rng, number = random.Random(seed), seed * 1_000_000
    with pm.Service() as service:
        own = list(names(service))
        while True:
            number += 1
            try:
                step(service, rng, own, number)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                print("full", flush=True)
                for _ in range(rng.randrange(1, 9)):
                    service.destroy(own.pop(rng.randrange(len(own))))


def check() -> None:
    begun = 0
    with pm.Service(may_write=False) as service:
        found = names(service)
    for name, size_bytes in found.items():
        with open(f"/dev/pm/{name}", "rb") as file:
            data = file.read()
        if data == content(name, size_bytes):
            continue
        begun += 1
        good = content(name, size_bytes)
        wrong = next(at for at in range(size_bytes) if data[at] != good[at])
        if data[wrong:].count(0) != size_bytes - wrong:
            sys.exit(f"{name}, byte {wrong}: neither its name nor the end of what was written")
    if begun > 1:
        sys.exit(f"{begun} segments are not whole")
    if len(found) < 5:
        sys.exit(f"{len(found)} segments: nothing was tried")
    print(f"{len(found)} segments")


def spoil() -> None:
    with pm.Service(may_write=False) as service:
        name = min(names(service))
    with open(f"/dev/pm/{name}", "r+b", buffering=0) as file:
        first = os.pread(file.fileno(), 1, 0)
        os.pwrite(file.fileno(), bytes([first[0] ^ 1]), 0)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(int(sys.argv[2]))
    elif sys.argv[1] == "check":
        check()
    else:
        spoil()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: files changed at random places, and afterwards what must be in them.

pm-torture.py work FOLDER ACKS NUMBER   changes FOLDER/f<NUMBER> for ever
pm-torture.py check FOLDER ACKS COUNT   exit status 0 if all of COUNT files are as they must be
pm-torture.py raise ACKS BY             makes one acknowledgement (of f0) BY versions newer

A file has pieces; each write makes one piece a newer version of itself (by write, by a mapping, or
by a hole and a write), and is then synced and acknowledged: by a store to the raw segment ACKS, on
media, which no file system can take back. A page of a piece is of the version that was
acknowledged, or of the next one; zeros only where a hole had been announced.
"""

import ctypes
import mmap
import os
import random
import sys

PIECES = 32
PAGE = 4096
PIECE_BYTES = 4 * PAGE
FILE_BYTES = PIECES * PIECE_BYTES
ACKS_BYTES = 64 << 10
PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
HOLE = 1 << 63  # of an acknowledgement: the next version begins with a hole
LIBC = ctypes.CDLL(None, use_errno=True)


def page(number: int, piece: int, version: int) -> bytes:
    return b"%8d%8d%8d%8d" % (number, piece, version, 7) * (PAGE // 32) if version else bytes(PAGE)


class Acks:
    """A word for each piece of each file, durable when put() returns."""

    def __init__(self, name: str) -> None:
        with open(f"/dev/pm/{name}", "r+b", buffering=0) as file:
            self.memory = mmap.mmap(file.fileno(), ACKS_BYTES)

    def get(self, number: int, piece: int) -> int:
        at = (number * PIECES + piece) * 8
        return int.from_bytes(self.memory[at : at + 8], "little")

    def put(self, number: int, piece: int, word: int) -> None:
        at = (number * PIECES + piece) * 8
        self.memory[at : at + 8] = word.to_bytes(8, "little")
        self.memory.flush()


def make(folder: str, number: int) -> int:
    file = os.open(f"{folder}/f{number}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, FILE_BYTES)
    os.fsync(file)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    return file


def punch(file: int, at: int) -> None:
    where = (ctypes.c_long(at), ctypes.c_long(PIECE_BYTES))
    if LIBC.fallocate(ctypes.c_int(file), ctypes.c_int(PUNCH), *where):
        sys.exit("no hole can be made")


def work(folder: str, name: str, number: int) -> None:
    rng, acks, file = random.Random(number), Acks(name), make(folder, number)
    while True:
        piece = rng.randrange(PIECES)
        version = (acks.get(number, piece) & ~HOLE) + 1
        data = page(number, piece, version) * (PIECE_BYTES // PAGE)
        at, way = piece * PIECE_BYTES, rng.randrange(3)
        if way == 0:
            with mmap.mmap(file, FILE_BYTES) as memory:
                memory[at : at + PIECE_BYTES] = data
                memory.flush(at, PIECE_BYTES)
        if way == 1:
            acks.put(number, piece, (version - 1) | HOLE)
            punch(file, at)
        if way:
            os.pwrite(file, data, at)
        os.fsync(file)
        acks.put(number, piece, version)


def check(folder: str, name: str, count: int) -> None:
    acks, versions = Acks(name), 0
    for number in range(count):
        with open(f"{folder}/f{number}", "rb") as file:
            data = file.read()
        if len(data) != FILE_BYTES:
            sys.exit(f"f{number} has {len(data)} bytes")
        for piece in range(PIECES):
            word = acks.get(number, piece)
            version = word & ~HOLE
            versions += version
            good = {page(number, piece, version), page(number, piece, version + 1)}
            good |= {bytes(PAGE)} if word & HOLE else set()
            for at in range(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES, PAGE):
                if data[at : at + PAGE] not in good:
                    sys.exit(f"f{number}, piece {piece}: neither version {version} nor the next")
    if versions < count:
        sys.exit(f"only {versions} writes were acknowledged: nothing was tried")
    print(versions)


def raise_one(name: str, by: int) -> None:
    """Of the first file's first piece of which no hole is announced: that one may be zeros."""
    acks = Acks(name)
    piece = next(piece for piece in range(PIECES) if not acks.get(0, piece) & HOLE)
    acks.put(0, piece, acks.get(0, piece) + by)


if sys.argv[1] == "work":
    work(sys.argv[2], sys.argv[3], int(sys.argv[4]))
elif sys.argv[1] == "raise":
    raise_one(sys.argv[2], int(sys.argv[3]))
else:
    check(sys.argv[2], sys.argv[3], int(sys.argv[4]))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NVRAM as CPUs saw it when the power failed, media after the cut, and where they differ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.errors import InfraError, RemError

LINE_BYTES = 64
PAGE_BYTES = 4096
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Lost:
    """A line whose bytes on media differ from what CPUs read."""

    line: int  # counted from the start of NVRAM
    first: int  # the first byte of it that differs
    last: int


class View:
    """A file that holds an NVRAM. Reading, unlike a mapping, never fills holes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self.size_bytes = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise InfraError(f"cannot read {path}: {error.strerror}") from error

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, count: int) -> bytes:
        """Fewer bytes at the end of the file; none beyond."""
        if offset < 0 or offset >= self.size_bytes or count <= 0:
            return b""
        try:
            return os.pread(self._descriptor, count, offset)
        except OSError as error:
            raise InfraError(f"cannot read {self.path}: {error.strerror}") from error

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each part that is not a hole."""
        end = 0
        while end < self.size_bytes:
            try:
                begin = os.lseek(self._descriptor, end, os.SEEK_DATA)
            except OSError:
                return  # nothing but a hole follows
            end = os.lseek(self._descriptor, begin, os.SEEK_HOLE)
            yield begin, end


def lost_lines(seen: View, media: View, from_bytes: int = 0) -> list[Lost]:
    """Every line that differs from a place on, in order; *from_bytes*: whole lines."""
    if seen.size_bytes != media.size_bytes or seen.size_bytes % PAGE_BYTES:
        raise RemError(
            f"{seen.path} has {seen.size_bytes} bytes and {media.path} {media.size_bytes}: "
            "they are not of one machine"
        )
    chunks = sorted(
        {
            at
            for view in (seen, media)
            for begin, end in view.pieces()
            for at in range(begin // CHUNK_BYTES * CHUNK_BYTES, end, CHUNK_BYTES)
            if at + CHUNK_BYTES > from_bytes
        }
    )
    lost: list[Lost] = []
    for at in chunks:
        left = np.frombuffer(seen.read(at, CHUNK_BYTES), dtype=np.uint8).reshape(-1, LINE_BYTES)
        right = np.frombuffer(media.read(at, CHUNK_BYTES), dtype=np.uint8).reshape(-1, LINE_BYTES)
        differs = left != right
        rows = np.nonzero(differs.any(axis=1))[0]
        firsts = differs[rows].argmax(axis=1)
        lasts = LINE_BYTES - 1 - differs[rows, ::-1].argmax(axis=1)
        first_line = at // LINE_BYTES
        lost += [
            Lost(first_line + int(row), int(first), int(last))
            for row, first, last in zip(rows, firsts, lasts, strict=True)
        ]
    return [line for line in lost if line.line * LINE_BYTES >= from_bytes]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Accesses of a program (`nvheap-bench tape`), filtered by a core's data cache.

The cache is LightPC's (16 KB, 4 ways, least recently used, write-back, write-allocate); the result
is a trace of format/rem_trace.h, which is written and read here. Unlike
`models/memory/src/cache.rs` it handles flushes.
"""

from __future__ import annotations

import array
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab import format as fmt
from lab.errors import RemError

LOAD, STORE, STREAM, FLUSH, FENCE, BEGIN = range(6)
KIND_SHIFT = 56
CACHE_BYTES, WAYS, LINE_BYTES = 16384, 4, int(fmt.CONST["REM_TRACE_LINE_BYTES"])
READ, WRITE, WAIT, IDLE = map(int, fmt.TraceKind)
# Fields of a record (format/rem_trace.h).
TRACE_LINE_MASK = (1 << 40) - 1
TRACE_KIND_SHIFT, TRACE_KIND_MASK, GAP_SHIFT, GAP_MAX = 46, 3, 48, 0xFFFF
RECORD_BYTES = 8
Words = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class Work:
    """Instructions besides those that access memory."""

    operation: int
    access: int


def read(file: Path) -> array.array[int]:
    words = array.array("Q", file.read_bytes())
    if sys.byteorder != "little":
        words.byteswap()
    return words


class Filter:
    """The cache, and the trace of what leaves it."""

    def __init__(self, work: Work) -> None:
        self.work = work
        # For each set its lines, least recently used first, and whether they are dirty.
        self.sets: list[OrderedDict[int, bool]] = [
            OrderedDict() for _ in range(CACHE_BYTES // LINE_BYTES // WAYS)
        ]
        self.records = array.array("Q")
        self.gap = 0
        self.lines = 1
        self.seen: Counter[int] = Counter()

    def follow(self, words: Iterable[int]) -> None:
        for word in words:
            kind, line = word >> KIND_SHIFT, (word & ((1 << KIND_SHIFT) - 1)) // LINE_BYTES
            self.seen[kind] += 1
            self.gap += self.work.operation if kind == BEGIN else 1
            if kind in (LOAD, STORE):
                self.gap += self.work.access
                self._access(line, kind == STORE)
            elif kind == STREAM:
                self.sets[line % len(self.sets)].pop(line, None)
                self._record(WRITE, line)
            elif kind == FLUSH:
                lines = self.sets[line % len(self.sets)]
                if lines.get(line):
                    lines[line] = False
                    self._record(WRITE, line)
            elif kind == FENCE:
                self._record(WAIT, 0)

    def _access(self, line: int, dirty: bool) -> None:
        lines = self.sets[line % len(self.sets)]
        if line in lines:
            lines[line] |= dirty
            lines.move_to_end(line)
            return
        if len(lines) == WAYS:
            old, was_dirty = lines.popitem(last=False)
            if was_dirty:
                self._record(WRITE, old)
        lines[line] = dirty
        self._record(READ, line)

    def _record(self, kind: int, line: int) -> None:
        while self.gap > GAP_MAX:
            self.records.append(IDLE << TRACE_KIND_SHIFT | GAP_MAX << GAP_SHIFT)
            self.gap -= GAP_MAX
        self.records.append(line | kind << TRACE_KIND_SHIFT | self.gap << GAP_SHIFT)
        self.gap = 0
        self.lines = max(self.lines, line + 1)

    @property
    def counts(self) -> dict[str, int]:
        """Counts of the program's accesses."""
        names = {"loads": LOAD, "stores": STORE, "streams": STREAM, "flushes": FLUSH}
        names |= {"fences": FENCE, "operations": BEGIN}
        return {name: self.seen[kind] for name, kind in names.items()}

    def trace(self) -> bytes:
        """The content of the trace's file."""
        records = array.array("Q", self.records)
        if sys.byteorder != "little":
            records.byteswap()
        return trace_file(records.tobytes(), self.lines)


def trace_file(body: bytes, lines: int) -> bytes:
    """The content of a trace's file, from its records of one CPU, little-endian."""
    header = fmt.VIEWS.rem_trace_header(
        magic=fmt.CONST["REM_TRACE_MAGIC"],
        version=fmt.CONST["REM_TRACE_VERSION"],
        line_bytes=LINE_BYTES,
        count=len(body) // RECORD_BYTES,
        lines=lines,
        cpu_count=1,
        check=fmt.crc32c(body),
    )
    return bytes(header.dumps()) + body


def requests(trace: bytes, name: str) -> tuple[Words, Words]:
    """Kinds (fmt.TraceKind) and lines of all records; RemError if *name* is no trace."""
    if fmt.parse("rem_trace_header", trace).magic != fmt.CONST["REM_TRACE_MAGIC"]:
        raise RemError(f"{name} is no trace of memory requests")
    records = np.frombuffer(trace, dtype="<u8", offset=fmt.size_of("rem_trace_header"))
    kinds = records >> np.uint64(TRACE_KIND_SHIFT) & np.uint64(TRACE_KIND_MASK)
    return kinds, records & np.uint64(TRACE_LINE_MASK)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The filter between a program's accesses and a trace."""

from __future__ import annotations

import struct

from lab.media.tape import (
    BEGIN,
    FENCE,
    FLUSH,
    KIND_SHIFT,
    LOAD,
    READ,
    STORE,
    STREAM,
    TRACE_KIND_SHIFT,
    WAIT,
    WAYS,
    WRITE,
    Filter,
    Work,
)

SETS = 64


def records(*accesses: tuple[int, int]) -> list[tuple[int, int, int]]:
    """(kind, line, instructions) for (kind, line) of a program."""
    filter_ = Filter(Work(operation=10, access=2))
    filter_.follow(kind << KIND_SHIFT | line * 64 for kind, line in accesses)
    return [(it >> TRACE_KIND_SHIFT & 3, it & ((1 << 40) - 1), it >> 48) for it in filter_.records]


def test_line_is_read_once_and_written_when_it_is_flushed() -> None:
    found = records((BEGIN, 0), (LOAD, 5), (STORE, 5), (FLUSH, 5), (FLUSH, 5), (FENCE, 0))
    assert found == [(READ, 5, 13), (WRITE, 5, 4), (WAIT, 0, 2)]


def test_line_used_longest_ago_makes_room() -> None:
    lines = [(STORE, 1), *((LOAD, 1 + SETS * way) for way in range(1, WAYS + 1))]
    assert [it[:2] for it in records(*lines)][-2:] == [(WRITE, 1), (READ, 1 + SETS * WAYS)]


def test_streamed_line_leaves_the_cache() -> None:
    found = [it[:2] for it in records((LOAD, 3), (STREAM, 3), (LOAD, 3))]
    assert found == [(READ, 3), (WRITE, 3), (READ, 3)]


def test_trace_has_its_length() -> None:
    filter_ = Filter(Work(operation=1, access=1))
    filter_.follow([LOAD << KIND_SHIFT | 640])
    data = filter_.trace()
    magic, version, line_bytes, count, lines, cpus, _ = struct.unpack_from("<8sIIQQII", data)
    assert (magic, version, line_bytes, count, lines, cpus) == (b"REMTRACE", 1, 64, 1, 11, 1)
    assert len(data) == 40 + 8

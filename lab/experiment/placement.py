# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where the requests of a trace (format/rem_trace.h) land on a machine with two kinds of memory.

A page is in one of the two. The first half of a trace is what a placement may know; the second half
is what is counted, so that no placement is judged by what it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lab import format as fmt
from lab.errors import RemError
from lab.media.tape import requests

PAGE_LINES = 4096 // int(fmt.CONST["REM_TRACE_LINE_BYTES"])
# How pages are chosen for the first kind of memory.
INTERLEAVED, RANGES, WRITTEN, KNOWN = "interleaved", "ranges", "written most", "known beforehand"
PLACEMENTS = (INTERLEAVED, RANGES, WRITTEN, KNOWN)
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Pages:
    """Pages that a trace touches, in the order of their addresses; lines written and read of each,
    in the first and in the second half of the requests."""

    numbers: Numbers
    written: tuple[Numbers, Numbers]
    read: tuple[Numbers, Numbers]


def pages_of(trace: Path) -> Pages:
    """RemError if the file is no trace, or has no writes in its second half."""
    kinds, lines = requests(trace.read_bytes(), str(trace))
    asks = (kinds == fmt.TraceKind.READ) | (kinds == fmt.TraceKind.WRITE)
    is_write = kinds[asks] == fmt.TraceKind.WRITE
    places = (lines[asks] // PAGE_LINES).astype(np.int64)
    numbers, index = np.unique(places, return_inverse=True)
    halves = (slice(None, len(places) // 2), slice(len(places) // 2, None))

    def count(half: slice, wanted: Any) -> Numbers:
        found = np.bincount(index[half][wanted[half]], minlength=len(numbers))
        return found.astype(np.int64)

    written = (count(halves[0], is_write), count(halves[1], is_write))
    if not written[1].sum():
        raise RemError(f"{trace} has no writes in its second half")
    return Pages(numbers, written, (count(halves[0], ~is_write), count(halves[1], ~is_write)))


def first_kind(pages: Pages, placement: str, share: Fraction) -> Any:
    """Which pages are in the first kind of memory, that *share* of them: a mask."""
    count = len(pages.numbers)
    if placement == INTERLEAVED:
        return pages.numbers % share.denominator < share.numerator
    order: Numbers
    if placement == RANGES:
        order = np.arange(count)
    else:
        known = pages.written[0 if placement == WRITTEN else 1]
        order = np.argsort(-known, kind="stable")
    chosen = np.zeros(count, dtype=bool)
    chosen[order[: round(count * share)]] = True
    return chosen


def landed(pages: Pages, placement: str, share: Fraction) -> dict[str, float]:
    """Which shares of the second half's writes and reads the first kind of memory gets."""
    chosen = first_kind(pages, placement, share)
    return {
        name: float(counts[chosen].sum() / max(1, counts.sum()))
        for name, counts in (("writes", pages.written[1]), ("reads", pages.read[1]))
    }

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a page says that one of the programs of page_words.h has written."""

from __future__ import annotations

import struct
from dataclasses import dataclass

MASK = (1 << 64) - 1
MULTIPLIER = 0x9E3779B97F4A7C15
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
SHIFTS = (31, 29)
WORDS = 512
KIND_AT, NUMBER_AT, VERSION_AT = 58, 36, 10


@dataclass(frozen=True)
class Page:
    """Whose it is, its number, and the round in which it was written."""

    kind: int
    number: int
    version: int


def _unshifted(word: int, shift: int) -> int:
    """The x of which word is x ^ (x >> shift)."""
    found = word
    for _ in range(64 // shift):
        found = word ^ (found >> shift)
    return found


def _of_word(word: int) -> int:
    before, behind = SHIFTS
    return _unshifted(_unshifted(word, behind) * INVERSE & MASK, before)


def told_by(data: bytes) -> Page | None:
    """The page that these 4096 bytes are, by its first and its last word; None if it is none."""
    first, last = (_of_word(word) for word in struct.unpack_from("<Q4080xQ", data))
    if first ^ last != WORDS - 1 or first & ((1 << VERSION_AT) - 1):
        return None
    kind, number = first >> KIND_AT, first >> NUMBER_AT & ((1 << (KIND_AT - NUMBER_AT)) - 1)
    return Page(kind, number, first >> VERSION_AT & ((1 << (NUMBER_AT - VERSION_AT)) - 1))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What CRIU counted of a dump: its file stats-dump, a protobuf message (criu's images/stats.proto)
behind two magic numbers and a length.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.errors import RemError

HEAD_BYTES = 12
DUMP = 1  # field of the whole message
# Of a dump, by number.
FIELDS = {1: "freezing_us", 2: "frozen_us", 3: "memdump_us", 4: "memwrite_us", 7: "pages_written"}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def dump_counts(raw: bytes) -> dict[str, int]:
    """FIELDS of a dump that are there; RemError if these are no statistics."""
    try:
        dumps = [value for field, value in _fields(raw[HEAD_BYTES:]) if field == DUMP]
        (dump,) = dumps
        assert isinstance(dump, bytes)
        found = {
            FIELDS[field]: value
            for field, value in _fields(dump)
            if field in FIELDS and isinstance(value, int)
        }
    except (AssertionError, IndexError, ValueError) as error:
        raise RemError(f"these are no statistics of CRIU: {raw[:64].hex()}") from error
    if "frozen_us" not in found:
        raise RemError(f"CRIU's statistics have no time: {found}")
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(kind)
        if length is None:
            if kind != BYTES:
                raise ValueError(kind)
            length, at = _varint(message, at)
        if at + length > len(message):
            raise ValueError(length)
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at

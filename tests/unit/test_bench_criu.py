# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CRIU's statistics of a dump: those of a file are read, and other bytes are not taken for them."""

from __future__ import annotations

import pytest

from lab.bench.criu import dump_counts
from lab.errors import RemError

HEAD = bytes(8) + b"\x1a\0\0\0"
# freezing_time 100, frozen_time 300, memdump_time 5, memwrite_time 7, a field that is not wanted,
# pages_written 600; around it the field of a dump.
DUMP = b"\x08\x64\x10\xac\x02\x18\x05\x20\x07\x28\x01\x38\xd8\x04"
STATS = HEAD + b"\x0a" + bytes([len(DUMP)]) + DUMP


def test_fields_of_a_dump_are_read() -> None:
    assert dump_counts(STATS) == {
        "freezing_us": 100,
        "frozen_us": 300,
        "memdump_us": 5,
        "memwrite_us": 7,
        "pages_written": 600,
    }


@pytest.mark.parametrize(
    "raw",
    [b"", HEAD, STATS[:-1], HEAD + b"\x12" + STATS[len(HEAD) + 1 :], HEAD + b"\x0a\x02\x08\x64"],
    ids=["nothing", "no message", "cut short", "of a restore", "no time"],
)
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(RemError, match="CRIU"):
        dump_counts(raw)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `rem-keep` has left on NVRAM, read while the machine is off (format/rem_keep.h)."""

from __future__ import annotations

from typing import Any

from lab import format as fmt
from lab.testbed.keep_guest import KeepGuest

FREE = 64  # of so many frames the content is of nobody
PAGE_BYTES: int = fmt.CONST["REM_KEEP_PAGE_BYTES"]


def read_record(guest: KeepGuest) -> bytes:
    with guest.nvram().open("rb") as nvram:
        nvram.seek(guest.range_offset)
        return nvram.read(fmt.CONST["REM_VM_BYTES"])


def write(guest: KeepGuest, offset: int, data: bytes) -> None:
    """Into the range."""
    with guest.nvram().open("r+b") as nvram:
        nvram.seek(guest.range_offset + offset)
        nvram.write(data)


def _table_bytes(guest: KeepGuest) -> int:
    size: int = fmt.size_of("rem_keep_entry")
    pages = guest.range_bytes // PAGE_BYTES
    return -(-pages * size // PAGE_BYTES) * PAGE_BYTES


def newest_table(guest: KeepGuest) -> list[Any]:
    """The entries of the newest image."""
    record = read_record(guest)
    slot_bytes = fmt.CONST["REM_VM_SLOT_BYTES"]
    bodies = [
        fmt.parse("rem_vm_body", record[at : at + fmt.size_of("rem_vm_body")])
        for at in (fmt.CONST["REM_VM_BODY_OFFSET"] + slot * slot_bytes for slot in (0, 1))
    ]
    body = max(bodies, key=lambda one: one.sequence)
    size = fmt.size_of("rem_keep_entry")
    at = fmt.CONST["REM_KEEP_TABLE_OFFSET"] + body.sequence % 2 * _table_bytes(guest)
    with guest.nvram().open("rb") as nvram:
        nvram.seek(guest.range_offset + at)
        raw = nvram.read(body.state_bytes)
    return [fmt.parse("rem_keep_entry", raw[i : i + size]) for i in range(0, len(raw), size)]


def free_frames(guest: KeepGuest) -> list[int]:
    """The last frames of the range that no kept program has."""
    begin = (fmt.CONST["REM_KEEP_TABLE_OFFSET"] + 2 * _table_bytes(guest)) // PAGE_BYTES
    kept = {entry.frame for entry in newest_table(guest)}
    frames = range(guest.range_bytes // PAGE_BYTES - 1, begin - 1, -1)
    return [frame for frame in frames if frame not in kept][:FREE]

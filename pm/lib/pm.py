# SPDX-License-Identifier: Apache-2.0 OR MIT
"""libpm for Python: the same calls, with exceptions (OSError) for their error numbers.

    with pm.Service() as service:
        service.create("box", 1 << 20)
        with service.map("box") as memory:
            memory[:5] = b"hello"
            memory.persist(0, 5)
    with pm.Blocks("ledger") as blocks:
        blocks.write({3: data, 7: None})     # both or none; None: a hole

A layer over libpm.so.1 by ctypes, and nothing more: libpm(3) describes it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

RAW, BLOCK = 2, 3
FOC, FOF = 1, 2
NAME_BYTES = 64
SLOT_BY_NAME = 0xFFFFFFFF


class Status(ctypes.Structure):
    """struct pm_ioc_status"""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("region_bytes", "base_bytes", "free_bytes")),
        *((name, ctypes.c_uint64) for name in ("wish_bytes", "repaired", "damaged", "events")),
        ("phys", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("slots", "used", "refused", "flags")),
        ("uuid", ctypes.c_uint8 * 16),
        ("source", ctypes.c_char * 64),
        *((name, ctypes.c_uint64) for name in ("address", "limit_bytes", "windows")),
        ("reserved", ctypes.c_uint64 * 1),
    )


class Segment(ctypes.Structure):
    """struct pm_ioc_segment"""

    _fields_ = (
        ("name", ctypes.c_char * NAME_BYTES),
        *((name, ctypes.c_uint32) for name in ("slot", "state", "type", "persist")),
        *((name, ctypes.c_uint64) for name in ("offset", "bytes", "extent_bytes", "generation")),
        *((name, ctypes.c_uint64) for name in ("created_ns", "map_address")),
        *((name, ctypes.c_uint32) for name in ("uid", "gid", "mode", "block_bytes")),
        *((name, ctypes.c_uint32) for name in ("users", "flags")),
        ("uuid", ctypes.c_uint8 * 16),
        ("reserved", ctypes.c_uint64 * 2),
    )


class BlockStatus(ctypes.Structure):
    """struct pm_ioc_block_status"""

    _fields_ = (
        ("name", ctypes.c_char * NAME_BYTES),
        *((name, ctypes.c_uint64) for name in ("blocks", "places", "free_places", "bad_blocks")),
        *((name, ctypes.c_uint64) for name in ("repaired", "replayed", "mismatches")),
        *((name, ctypes.c_uint32) for name in ("block_bytes", "transaction_blocks")),
        ("reserved", ctypes.c_uint64 * 4),
    )


class Disk(ctypes.Structure):
    """struct pm_ioc_disk"""

    _fields_ = (
        ("name", ctypes.c_char * NAME_BYTES),
        ("disk", ctypes.c_char * 24),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class BlockIo(ctypes.Structure):
    """struct pm_ioc_block"""

    _fields_ = (("block", ctypes.c_uint64), ("data", ctypes.c_uint64))


_lib = ctypes.CDLL("libpm.so.1")
_lib.pm_map_address.restype = ctypes.c_void_p
_lib.pm_map_bytes.restype = ctypes.c_size_t


def _call(name: str, *arguments: Any, what: str = "") -> None:
    err = getattr(_lib, name)(*arguments)
    if err < 0:
        raise OSError(-err, os.strerror(-err), what or name)


class _Closed:
    """`with`: close() at its end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Memory(_Closed):
    """A mapped segment, as bytes that can be assigned to."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self.address = int(_lib.pm_map_address(handle))
        self.bytes = int(_lib.pm_map_bytes(handle))
        self._view = memoryview((ctypes.c_char * self.bytes).from_address(self.address)).cast("B")

    def __len__(self) -> int:
        return self.bytes

    def __getitem__(self, at: slice) -> bytes:
        return bytes(self._view[at])

    def __setitem__(self, at: slice, data: bytes) -> None:
        self._view[at] = data

    def persist(self, at: int, count: int) -> None:
        """What was stored there is durable on return."""
        if not 0 <= at <= at + count <= self.bytes:
            raise IndexError(f"{at} and {count} bytes are not in {self.bytes}")
        _lib.pm_persist(ctypes.c_void_p(self.address + at), ctypes.c_size_t(count))

    def close(self) -> None:
        self._view.release()
        _lib.pm_unmap(self._handle)
        self._handle = ctypes.c_void_p()


class Service(_Closed):
    """The region and its segments."""

    def __init__(self, may_write: bool = True) -> None:
        self._pm = ctypes.c_void_p()
        _call("pm_open", ctypes.byref(self._pm), ctypes.c_int(may_write), what="/dev/pmctl")

    def close(self) -> None:
        _lib.pm_close(self._pm)
        self._pm = ctypes.c_void_p()

    def status(self) -> Status:
        status = Status()
        _call("pm_status", self._pm, ctypes.byref(status))
        return status

    def fileno(self) -> int:
        """For select and poll: readable when something changed since status() or iteration."""
        return int(_lib.pm_poll_fd(self._pm))

    def check(self) -> Status:
        """Look at all copies of the base segment and repair them."""
        status = Status()
        _call("pm_check", self._pm, ctypes.byref(status))
        return status

    def resize_region(self, size_bytes: int) -> None:
        """From the next boot on; 0 takes the wish back."""
        _call("pm_resize_region", self._pm, ctypes.c_uint64(size_bytes))

    def give_up(self, slot: int) -> None:
        """A slot that is damaged in all copies: what it held is lost."""
        _call("pm_give_up", self._pm, ctypes.c_uint32(slot))

    def change(self, segment: Segment) -> None:
        """Owner, group, mode and map address, as they are in *segment*."""
        _call("pm_change", self._pm, ctypes.byref(segment))

    def get(self, name: str) -> Segment:
        segment = Segment()
        _call("pm_get", self._pm, name.encode(), ctypes.byref(segment), what=name)
        return segment

    def __iter__(self) -> Iterator[Segment]:
        slot = ctypes.c_uint32(0)
        while True:
            segment = Segment()
            try:
                _call("pm_next", self._pm, ctypes.byref(slot), ctypes.byref(segment))
            except FileNotFoundError:
                return
            yield segment
            slot.value += 1

    def create(
        self,
        name: str,
        size_bytes: int,
        block_bytes: int = 0,
        mode: int = 0o600,
        persist: int = FOC,
    ) -> Segment:
        segment = Segment(name=name.encode(), slot=SLOT_BY_NAME, bytes=size_bytes, mode=mode)
        segment.type = BLOCK if block_bytes else RAW
        segment.block_bytes, segment.persist = block_bytes, persist
        _call("pm_create", self._pm, ctypes.byref(segment), what=name)
        return segment

    def destroy(self, name: str) -> None:
        _call("pm_destroy", self._pm, name.encode(), what=name)

    def resize(self, name: str, size_bytes: int, may_move: bool = True) -> None:
        size = ctypes.c_uint64(size_bytes)
        _call("pm_resize", self._pm, name.encode(), size, ctypes.c_int(may_move), what=name)

    def map(self, name: str, may_write: bool = True) -> Memory:
        handle = ctypes.c_void_p()
        what = ctypes.byref(handle)
        _call("pm_map", self._pm, name.encode(), ctypes.c_int(may_write), what, what=name)
        return Memory(handle)


def disk_add(name: str) -> str:
    """Make a disk of a segment: its name below /dev."""
    disk = Disk()
    _call("pm_disk_add", name.encode(), ctypes.byref(disk), what=name)
    return bytes(disk.disk).decode()


def disk_remove(name: str) -> None:
    _call("pm_disk_remove", name.encode(), what=name)


class Blocks(_Closed):
    """A block segment."""

    def __init__(self, name: str) -> None:
        self._blocks = ctypes.c_void_p()
        _call("pm_blocks_open", name.encode(), ctypes.byref(self._blocks), what=name)
        self.block_bytes = int(self.status().block_bytes)

    def close(self) -> None:
        _lib.pm_blocks_close(self._blocks)
        self._blocks = ctypes.c_void_p()

    def status(self) -> BlockStatus:
        status = BlockStatus()
        _call("pm_blocks_status", self._blocks, ctypes.byref(status))
        return status

    def scrub(self) -> BlockStatus:
        """Look at every block and repair what can be."""
        status = BlockStatus()
        _call("pm_blocks_scrub", self._blocks, ctypes.byref(status))
        return status

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Blocks of one moment; EBADMSG, and none, where one is not what was written."""
        buffers = [ctypes.create_string_buffer(self.block_bytes) for _ in numbers]
        io = self._io(dict(zip(numbers, buffers, strict=True)))
        _call("pm_blocks_read", self._blocks, io, ctypes.c_uint32(len(buffers)))
        return [buffer.raw for buffer in buffers]

    def write(self, blocks: Mapping[int, bytes | None]) -> None:
        """All or none, durable on return."""
        buffers: dict[int, Any] = {}
        for number, data in blocks.items():
            if data is not None and len(data) != self.block_bytes:
                raise ValueError(f"block {number}: {len(data)} bytes, not {self.block_bytes}")
            buffers[number] = data and ctypes.create_string_buffer(data, self.block_bytes)
        io = self._io(buffers)
        _call("pm_blocks_write", self._blocks, io, ctypes.c_uint32(len(buffers)))

    def lock(self, exclusive: bool = True, wait: bool = True) -> None:
        """For what is more than one transaction: see libpm(3)."""
        words = (ctypes.c_int(exclusive), ctypes.c_int(wait))
        _call("pm_blocks_lock", self._blocks, *words)

    def unlock(self) -> None:
        _call("pm_blocks_unlock", self._blocks)

    def bad(self) -> list[int]:
        """Blocks found damaged since the segment was opened, and not written again."""
        found: list[int] = []
        room = (ctypes.c_uint64 * 64)()
        while True:
            first = ctypes.c_uint64(found[-1] + 1 if found else 0)
            count = _lib.pm_blocks_bad(self._blocks, first, room, ctypes.c_uint32(len(room)))
            if count < 0:
                raise OSError(-count, os.strerror(-count), "pm_blocks_bad")
            found += room[:count]
            if count < len(room):
                return found

    def _io(self, buffers: Mapping[int, Any]) -> Any:
        io = (BlockIo * len(buffers))()
        for entry, (number, buffer) in zip(io, buffers.items(), strict=True):
            entry.block = number
            entry.data = ctypes.addressof(buffer) if buffer else 0
        return io

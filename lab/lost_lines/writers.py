# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The last store to each line: the file of format/rem_writers.h, and names for its addresses."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from lab import format as fmt
from lab.lost_lines.kernel import KERNEL_MAP, UPPER_HALF, Symbols
from lab.lost_lines.memory import View
from lab.lost_lines.processes import Process
from lab.machine.qemu import NVRAM_PHYS

ENTRY_BYTES = fmt.size_of("rem_writer")
ENTRY = struct.Struct("<QQ")  # struct rem_writer; the parser of headers is slow for a million
PROGRAM = int(fmt.CONST["REM_WRITER_PROGRAM"])
# The loader runs at its link address, in the first MiBs; programs are linked above. The kernel's
# decompressor runs at its place in NVRAM.
LOADER_END = 0x200000
NVRAM_END = NVRAM_PHYS + (1 << 36)


@dataclass(frozen=True)
class Writer:
    """The last store to a line."""

    pc: int
    cpu: int
    time_ns: int


class Writers:
    """The table; without a file no writer is known."""

    def __init__(self, path: Path | None) -> None:
        self._view = View(path) if path is not None and path.exists() else None

    @property
    def known(self) -> bool:
        return self._view is not None

    def of(self, line: int) -> Writer | None:
        raw = self._view.read(line * ENTRY_BYTES, ENTRY_BYTES) if self._view else b""
        if len(raw) < ENTRY_BYTES:
            return None
        pc, when = ENTRY.unpack(raw)
        return Writer(pc, when & 0xFF, when >> 8) if pc else None


def place_of(pc: int, symbols: Symbols | None, process: Process | None) -> str:
    """A name for an instruction; in a program, the place in the page's owner."""
    if pc == PROGRAM:
        return "a program"
    if pc >= KERNEL_MAP:
        name = symbols.name(pc) if symbols else None
        return name or f"kernel {pc:#x}"
    if pc >= UPPER_HALF:
        return f"kernel {pc:#x}"
    if pc < LOADER_END:
        return "the loader"
    mapping = process.mapping_of(pc) if process else None
    if mapping is None and NVRAM_PHYS <= pc < NVRAM_END:
        return "the kernel's decompressor"
    if mapping is None:
        return f"a program at {pc:#x}"
    return f"{process}: {mapping.name}+{pc - mapping.begin + mapping.offset_bytes:#x}"

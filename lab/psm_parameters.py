# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The parameters of the PSM in RTL: the model's own table, in cycles of its clock.

`models/parts/memory` has the numbers once. Times become whole cycles, rounded up; the model is
asked with the same rounded times (`in_cycles`), and with the table's own for the time error.
"""

from __future__ import annotations

import math

from lab.errors import InfraError
from lab.format import crc32c
from lab.parts import part_number

PRAM, CORES = "lpc-table1", "lpc-core"
PIECES, PIECE_BYTES = 3, 32
TIME_BITS = 24
THIRD_SHIFT = 34  # of the reciprocal of 3; exact below 2^33
MESSAGE_BYTES = 42  # of a piece: data, generation, number, place
RECORD_BYTES = 60  # of a journal's record, without its check
TIMES = tuple(
    f"{name}_ns"
    for name in ("controller", "read", "program", "cooling", "row_buffer", "xcc", "tburst")
)


def clock_ns() -> float:
    """One cycle: of the ASIC, 1.6 GHz."""
    return 1000 / part_number(CORES, "clock_mhz")


def cycles(ns: float) -> int:
    """Whole cycles for a time of the table."""
    return math.ceil(round(ns / clock_ns(), 6))


def in_cycles() -> dict[str, float]:
    """The times of the table that are no whole cycles, as the RTL has them, in ns."""
    rounded = {name: cycles(part_number(PRAM, name)) * clock_ns() for name in TIMES}
    return {name: ns for name, ns in rounded.items() if ns != part_number(PRAM, name)}


def _parities(prefix: str, bits_name: str, size_bytes: int) -> list[str]:
    """Macros that give each bit of a CRC as a parity of some bits of a message."""
    zero = crc32c(bytes(size_bytes))
    masks = [0] * 32
    for at in range(8 * size_bytes):
        one = bytearray(size_bytes)
        one[at // 8] = 1 << (at % 8)
        changed = crc32c(bytes(one)) ^ zero
        for bit in range(32):
            masks[bit] |= ((changed >> bit) & 1) << at
    width = 8 * size_bytes
    lines = [f"`define {prefix}_ZERO 32'h{zero:08x}"]
    lines += [f"`define {prefix}_MASK_{bit} {width}'h{mask:x}" for bit, mask in enumerate(masks)]
    parity = ", ".join(f"^((m) & `{prefix}_MASK_{bit})" for bit in reversed(range(32)))
    return [*lines, f"`define {bits_name}(m) {{{parity}}}"]


def numbers() -> dict[str, int]:
    """The parameters by name; times are cycles."""
    dimms = int(part_number(PRAM, "dimms"))
    subs = int(part_number(PRAM, "devices_per_dimm")) // PIECES
    groups = dimms * subs
    page_lines = int(part_number(PRAM, "page_bytes")) // PIECE_BYTES
    shift = (groups // 3).bit_length() - 1
    if groups != 3 << shift or subs & (subs - 1) or page_lines & (page_lines - 1):
        raise InfraError(f"{PRAM}: {groups} groups, {page_lines} lines a page: no RTL for that")
    of = {name: cycles(part_number(PRAM, name)) for name in TIMES}
    return {
        "CHANNELS": dimms,
        "GROUPS": groups,
        "GROUP_SHIFT": shift,
        "SUB_BITS": subs.bit_length() - 1,
        "PAGE_LINE_BITS": page_lines.bit_length() - 1,
        "TIME_BITS": TIME_BITS,
        "FRONT": of["controller_ns"] // 2,
        "BACK": of["controller_ns"] - of["controller_ns"] // 2,
        "READ": of["read_ns"],
        "PROGRAM": of["program_ns"] + of["cooling_ns"],
        "ROW_BUFFER": of["row_buffer_ns"],
        "XCC": of["xcc_ns"],
        "BURST": of["tburst_ns"],
        "THIRD_SHIFT": THIRD_SHIFT,
    }


def header() -> str:
    """The text of psm_parameters.svh."""
    third = -(-(1 << THIRD_SHIFT) // 3)
    lines = [
        "// SPDX-License-Identifier: Apache-2.0 OR MIT",
        "// Made by lab/psm_parameters.py from models/parts/memory. Times are cycles.",
        "`ifndef PSM_PARAMETERS",
        "`define PSM_PARAMETERS",
        *(f"`define PSM_{name} {number}" for name, number in numbers().items()),
        f"`define PSM_THIRD {THIRD_SHIFT}'d{third}",
        *_parities("PSM_CRC", "PSM_CRC_BITS", MESSAGE_BYTES),
        *_parities("PSM_JOURNAL", "PSM_JOURNAL_BITS", RECORD_BYTES),
        "`endif",
    ]
    return "\n".join(lines) + "\n"

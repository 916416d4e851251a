# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What DRAM as a cache does not win back: whose lines the reads are that still go to NVRAM.

Method: the machine of rfa.py, with DRAM of some size, traces requests below its caches
(format/rem_trace.h) while the program works. At the end of each trace it stands still, and each
line is looked up in its memory: by the kernel's image, its memory map, and page tables
(lab/lost_lines/pages.py). Of pages whose process has ended meanwhile only the kind `free` is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab import format as fmt
from lab.lost_lines.kernel import Kernel, Symbols
from lab.lost_lines.memory import View
from lab.lost_lines.pages import Pages
from lab.lost_lines.source import map_and_layout
from lab.machine.machine import Machine
from lab.machine.qemu import NVRAM_PHYS
from lab.machine.tracing import record
from lab.media.tape import requests

TRACES = 5
RECORDS = 300_000  # of each
RECORD_LIMIT_S = 600.0  # of the host's time
LINE_BYTES = int(fmt.CONST["REM_TRACE_LINE_BYTES"])
TEXT = "kernel text"  # and read-only data, of the image


@dataclass(frozen=True)
class Reads:
    """Reads of lines of NVRAM by kind of their owners: KINDS of lost_lines, and TEXT."""

    by_kind: Counter[str]

    @property
    def total(self) -> int:
        return sum(self.by_kind.values())

    def shares(self) -> dict[str, float]:
        """Of each kind, the most first."""
        return {kind: count / self.total for kind, count in self.by_kind.most_common()}


def lines_read(trace: bytes) -> Counter[int]:
    """How often each line of NVRAM was read, by the records of a trace."""
    kinds, lines = requests(trace, "what the machine has recorded")
    values, counts = np.unique(lines[kinds == fmt.TraceKind.READ], return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def reads_of(machine: Machine) -> Reads:
    """Trace a machine that works, and look up what it has read."""
    system_map, layout = map_and_layout(machine.config.kernel)
    found: Counter[str] = Counter()
    for _ in range(TRACES):
        lines = lines_read(record(machine, RECORDS, RECORD_LIMIT_S).read_bytes())
        assert machine.qemu is not None
        machine.qemu.qmp.execute("stop")
        found += _kinds(machine.files.seen(machine.config), system_map, layout, lines)
        machine.qemu.qmp.execute("cont")
    return Reads(found)


def _kinds(memory: Path, system_map: Path, layout: Path, lines: Counter[int]) -> Counter[str]:
    view = View(memory)
    try:
        symbols = Symbols(system_map)
        kernel = Kernel(view, symbols, layout)
        pages = Pages(kernel)
        text = range(
            kernel.phys, kernel.phys + symbols.linked("__end_rodata") - symbols.linked("_text")
        )
        found: Counter[str] = Counter()
        for line, count in lines.items():
            kind = pages.owner(line * LINE_BYTES).kind
            is_text = kind == "kernel" and NVRAM_PHYS + line * LINE_BYTES in text
            found[TEXT if is_text else kind] += count
        return found
    finally:
        view.close()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What may differ between memory and media after a Stop: stacks that nobody will read.

Each CPU writes back its caches and then calls a few more functions, on the stack below the stack
pointer that its context has. Go begins at that pointer and writes there before it reads. All else
that is stored after the write-back is flushed line by line. So no other byte may differ.
"""

from __future__ import annotations

import struct

from lab.lost_lines.kernel import Kernel, Symbols
from lab.lost_lines.memory import LINE_BYTES, View
from lab.lost_lines.processes import STACK_BYTES
from lab.lost_lines.report import Loss, LostLine, Source
from lab.machine.qemu import NVRAM_PHYS
from lab.record.block import Slot, decode, read_block

RSP_OFFSET = 0  # in struct rem_context: REM_CTX_RSP of kernel/x86/isa.h


def strays(source: Source, loss: Loss) -> list[LostLine]:
    """The lines of *loss*, which a Stop left, that differ outside dead stacks."""
    if not loss.lines:
        return []
    assert source.kernel is not None, "without the kernel no stack is known"
    system_map, layout = source.kernel()
    seen = View(source.seen)
    try:
        kernel = Kernel(seen, Symbols(system_map), layout)
        slot = decode(read_block(source.seen)).newest
        dead = dead_bytes(kernel, slot) if slot is not None else {}
    finally:
        seen.close()
    return [line for line in loss.lines if line.last >= dead.get(line.offset, 0)]


def dead_bytes(kernel: Kernel, slot: Slot) -> dict[int, int]:
    """By the offset of each line that is at least partly dead: how many of its first bytes are."""
    dead: dict[int, int] = {}
    body = slot.body
    if body is None:
        return dead
    for cpu in range(body.cpu_count):
        at = body.context_phys + cpu * body.context_bytes + RSP_OFFSET
        (rsp,) = struct.unpack("<Q", kernel.read_phys(at, 8))
        for address in range(rsp - rsp % STACK_BYTES, rsp, LINE_BYTES):
            dead[kernel.translate(address) - NVRAM_PHYS] = min(rsp - address, LINE_BYTES)
    return dead

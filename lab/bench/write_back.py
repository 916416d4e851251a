# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long a Stop's write-back may take: what the kernel is told by `remanence.flush_us`.

Method: two models are asked, and the longer answer counts. The power model has the walk through the
caches; the memory model has their lines, all dirty, on a memory whose own buffers programs have
filled, until that memory keeps them. OC-PMEM does so when its flush port has answered; an
Optane-like DIMM when it has accepted them, for which it must make room. The DIMM's own reserve
writes the rest, and no Stop waits for that.
"""

from __future__ import annotations

import math

from lab.machine.memories import controller_of
from lab.media.engine import Engine
from lab.media.settings import memory_of
from lab.power.model import PowerModel

ALL_DIRTY_BYTES = 128 << 20  # more than the caches of any profile hold
LINE_BYTES = 64
NS_OF_US = 1000


def write_back_us(controller: str, profile: str, cpus: int, nvram_bytes: int) -> int:
    """Of a machine with `--memory` *controller* and `--caches` *profile*; rounded up."""
    caches = PowerModel.ready().ask(
        "flush", profile=profile, cores=cpus, how="wbinvd", dirty_bytes=ALL_DIRTY_BYTES
    )
    name, *settings = controller_of(controller).split(":")
    behind = Engine.ready().ask_once(
        "flush",
        memory=memory_of(name, settings),
        lines=nvram_bytes // LINE_BYTES,
        dirty_lines=caches["lines"],
    )
    longest_ns = max(float(caches["time_ns"]), float(behind["longest_ns"]))
    return math.ceil(longest_ns / NS_OF_US)

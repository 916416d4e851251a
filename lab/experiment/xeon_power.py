# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Power of the core-memory-age paper's server: cores that work, wait or are parked, both kinds of
memory, and all else.

Both kinds of DIMMs are in the server, whichever the kernel runs in: one has its requests, each has
its background. Numbers are those of models/parts/memory/xeon-6330-power.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.bench.cost import REQUEST_PJ
from lab.experiment.xeon import STATIC_PJ
from lab.parts import part_number

PART = "xeon-6330-power"
CORES = 56  # Core-Memory Age, 2.1
# What the table assumes, over its plausible range: a core that waits may stop most of its clocks,
# or hardly any; a server of one unit.
STALLED_PARTS = (0.3, 0.6, 0.9)
REST_MW = (100_000, 150_000, 200_000)


def static_mw(rows: Mapping[str, Any]) -> float:
    """Background and refresh of a memory, from what was counted of it (pJ a ns are mW)."""
    samples = [one for samples in rows.values() for one in samples]
    energy = sum(one[name] for one in samples for name in STATIC_PJ)
    return float(energy / sum(one["guest_ns"] for one in samples))


def server_mw(
    one: Mapping[str, float],
    busy_ns: float,
    memories_mw: float,
    stalled_part: float | None = None,
    rest_mw: float | None = None,
) -> float:
    """Mean power of *one* sample, whose threads were on CPUs for *busy_ns* together.

    *memories_mw*: of both kinds, without requests. *stalled_part*: of a working core's power.
    """
    ns, executed_ns = one["ns"], min(one["executed_ns"], busy_ns)
    active_mw = part_number(PART, "active_mw")
    stalled_mw = part_number(PART, "stalled_mw")
    if stalled_part is not None:
        stalled_mw = stalled_part * active_mw
    cores_pj = executed_ns * active_mw + (busy_ns - executed_ns) * stalled_mw
    cores_pj += (CORES * ns - busy_ns) * part_number(PART, "parked_mw")
    requests_pj = sum(one[name] for name in REQUEST_PJ)
    rest = part_number(PART, "rest_mw") if rest_mw is None else rest_mw
    return (cores_pj + requests_pj) / ns + memories_mw + rest

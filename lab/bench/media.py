# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench media`: requests per second of the model of OC-PMEM on one core, and the lifetime of
the memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.media.engine import Engine, memory, value
from lab.media.redis import redis_trace
from lab.messages import info
from lab.result import Result

LINES_4_GIB = 1 << 26
REQUESTS = 100_000_000
REQUIRED_MREQ_S = 10
REQUIRED_LIFETIME = 0.95
# A memory small enough to count a life of 1e7 writes per line. A region is 8 lines, by the
# analysis of its size in experiments/lpc-wear.
LIFE: dict[str, Any] = {"lines": 2048, "endurance_writes": 10_000_000}
REGION_LINES = 8
ATTACKED = 256  # lines; with 2,048 lines the worst case of experiments/lpc-wear
RESEEDED: dict[str, Any] = {
    "start_gap": True,
    "randomize": True,
    "threshold_writes": 100,
    "regions": LIFE["lines"] // REGION_LINES,
    "swap_writes": 256,
    "seed": 1,
}


def run(requests: int, trace: Path | None) -> Result:
    """Measure requests in host time; the rest is modelled. The default trace is redis's."""
    engine = Engine.ready()
    result = Result("bench-media")
    job: dict[str, Any] = {
        "memory": memory("lightpc"),
        "lines": LINES_4_GIB,
        "requests": requests,
        "read_percent": 67,
        "in_flight": 16,
        "seed": 1,
    }
    info(f"{requests:,} random requests over 4 GiB, XCC, Start-Gap, wear and energy on")
    done = engine.ask("bench", **job)
    result.add("ocpmem_mreq_s", round(done["mreq_s"], 2), "million/s", "native")
    result.add("ocpmem_requests", int(done["requests"]), "", "counted")
    result.add("ocpmem_energy_pj", value(done, "energy_pj"), "pJ", "modelled")
    result.add("ocpmem_wear_max", int(value(done, "wear_max")), "", "counted")
    result.ok = done["mreq_s"] >= REQUIRED_MREQ_S
    if trace is None:
        trace = redis_trace()
    recorded = engine.ask("trace", file=str(trace))
    info(f"as many requests of a recorded trace of {recorded['records']:,} records, repeated")
    done = engine.ask("bench", **{**job, "trace": str(trace)})
    result.add("ocpmem_trace_mreq_s", round(done["mreq_s"], 2), "million/s", "native")
    result.add("ocpmem_trace_requests", int(done["requests"]), "", "counted")
    result.add("trace_records", recorded["records"], "", "counted")
    result.add("trace_check", f"{recorded['check']:#010x}", "CRC-32C", "counted")
    result.ok = result.ok and done["mreq_s"] >= REQUIRED_MREQ_S
    for name, more in (("benign", {"trace": str(trace)}), ("attack", {"attack_lines": ATTACKED})):
        life = engine.ask("wear", wear=RESEEDED, **LIFE, **more)
        # Gaps are lines, too: the ideal is the endurance of all lines of media.
        result.add(f"lifetime_{name}", round(life["lifetime_of_media"], 4), "of ideal", "modelled")
        result.ok = result.ok and life["lifetime_of_media"] >= REQUIRED_LIFETIME
    return result

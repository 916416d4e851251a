# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench media`: the speed of the model of OC-PMEM, and the lifetime of the memory.

The speed is a ratio to that of DRAMsim3, a simulator that computes each cycle, on the same
requests: native, in turn, the median of rounds with half the distance of the quartiles as spread.
"""

from __future__ import annotations

from pathlib import Path
from statistics import quantiles
from typing import Any

from lab.bench.media_peer import PART, ask
from lab.media.engine import Engine, memory, value
from lab.media.redis import redis_trace
from lab.messages import info
from lab.result import Result
from lab.setup.media_peer import MediaPeer
from lab.setup.products import need

LINES_4_GIB = 1 << 26
REQUESTS = 100_000_000
# What the peer is given of them in each round: it computes every cycle of every channel.
PEER_REQUESTS = 200_000
PEER_ROUNDS = 9
# Ours computes requests only, so it has to be well ahead of a simulator of cycles.
REQUIRED_VS_PEER = 10
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
    """Measure the speed by rounds in turn; the rest is modelled. The default trace is redis's."""
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
    result.add("ocpmem_requests", int(done["requests"]), "", "counted")
    result.add("ocpmem_energy_pj", value(done, "energy_pj"), "pJ", "modelled")
    result.add("ocpmem_wear_max", int(value(done, "wear_max")), "", "counted")
    if trace is None:
        trace = redis_trace()
    recorded = engine.ask("trace", file=str(trace))
    result.add("trace_records", recorded["records"], "", "counted")
    result.add("trace_check", f"{recorded['check']:#010x}", "CRC-32C", "counted")
    many = min(requests, PEER_REQUESTS)
    random = {"pattern": "random", "read_percent": job["read_percent"], "requests": many}
    requested = recorded["reads"] + recorded["writes"]
    traced = {"trace": str(trace), "requests": min(many, requested)}
    for name, traffic in (("", random), ("trace_", traced)):
        info(f"{traffic['requests']:,} {'recorded' if name else 'random'} requests beside DRAMsim3")
        rounds = _beside_peer({**traffic, "in_flight": job["in_flight"], "seed": job["seed"]})
        for side in ("ocpmem", "dram"):
            ratio, spread_percent = vs_peer(rounds, side)
            result.add(f"{side}_{name}vs_peer", round(ratio, 1), "x", "native")
            result.add(f"{side}_{name}vs_peer_spread", round(spread_percent, 1), "%", "native")
            result.ok = result.ok and ratio >= REQUIRED_VS_PEER
    for name, more in (("benign", {"trace": str(trace)}), ("attack", {"attack_lines": ATTACKED})):
        life = engine.ask("wear", wear=RESEEDED, **LIFE, **more)
        # Gaps are lines, too: the ideal is the endurance of all lines of media.
        result.add(f"lifetime_{name}", round(life["lifetime_of_media"], 4), "of ideal", "modelled")
        result.ok = result.ok and life["lifetime_of_media"] >= REQUIRED_LIFETIME
    return result


def _beside_peer(traffic: dict[str, Any]) -> list[dict[str, float]]:
    """Seconds of the peer and of our models in each round, for the same requests."""
    job = {"part": PART, "gates": "all", "lines": LINES_4_GIB, "rounds": PEER_ROUNDS}
    answer = ask(need(MediaPeer()), "speed", traffic=traffic, **job)
    rounds: list[dict[str, float]] = answer["rounds"]
    return rounds


def vs_peer(rounds: list[dict[str, float]], side: str) -> tuple[float, float]:
    """How many times as fast as the peer: the median of the rounds, and the spread in percent."""
    ratios = [one["peer_s"] / one[f"{side}_s"] for one in rounds]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return middle, (high - low) / 2 / middle * 100

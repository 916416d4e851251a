# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the PSM in RTL and its model are asked: settings, ends, and faults.

`paper` has LightPC's own leveler; its times are the figures. `levelling` moves lines five times as
often and reseeds, so that moves, exchanges and requests meet. The others end in another way: by the
power-fail wire, with broken cells, by the reset port.
"""

from __future__ import annotations

import numpy as np

from lab.rtl.drive import LINES, Plan
from lab.rtl.stream import random_trace

PIECES, PIECE_BYTES = 3, 37
FAULTY_LINES, TWO_FAULTS_SHARE = 1500, 0.25


def paper(requests: int, seed: int) -> Plan:
    """LightPC's leveler: the gap moves after each 100 writes."""
    return Plan(random_trace(requests, LINES, seed), seed=seed)


def levelling(requests: int, seed: int) -> Plan:
    """Moves after each 20 writes, an exchange after each 96; every line is read at the end."""
    trace = random_trace(requests, LINES, seed)
    return Plan(trace, gap_every=20, swap_every=96, seed=seed, sweep=True)


def power_fail(requests: int, seed: int) -> Plan:
    """The power-fail wire in the middle of work, instead of the flush port."""
    return Plan(random_trace(requests, LINES, seed), gap_every=20, seed=seed, power_fail=True)


def reset(requests: int, seed: int) -> Plan:
    """The reset port, and a read of every line."""
    return Plan(random_trace(requests, LINES, seed), gap_every=20, seed=seed, reset=True)


def faults(requests: int, seed: int) -> Plan:
    """Bits of some cells flip, of one piece of a line or of two; every line is read one by one."""
    rng = np.random.default_rng(seed)
    places = rng.choice(LINES + 1, min(FAULTY_LINES, LINES), replace=False)
    found = []
    for place in places.tolist():
        count = 2 if rng.random() < TWO_FAULTS_SHARE else 1
        for piece in rng.choice(PIECES, count, replace=False).tolist():
            byte, mask = int(rng.integers(PIECE_BYTES)), 1 << int(rng.integers(8))
            found.append((place, piece, byte, mask))
    trace = random_trace(requests, LINES, seed)
    return Plan(trace, gap_every=10, swap_every=64, seed=seed, faults=tuple(found), sweep=True)


def recorded(trace: bytes) -> Plan:
    """A trace of the machine, as fast as it can be served; its lines are folded into the memory."""
    return Plan(trace, pauses=False)


def small() -> dict[str, Plan]:
    """Each kind once, with few requests: what coverage is counted of, and bugs are looked for."""
    return {
        "paper": paper(2500, 1),
        "levelling": levelling(700, 2),
        "power-fail": power_fail(600, 3),
        "faults": faults(400, 4),
        "reset": reset(150, 5),
    }

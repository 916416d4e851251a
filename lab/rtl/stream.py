# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random requests for the PSM in RTL and its model, as traces of format/rem_trace.h.

A third of the requests are writes. Half go anywhere; the others stay near a place that moves, or
come back to a line of a moment ago, so that row buffers, latches and queues meet. Some thousand
requests lie between two flushes, and pauses let devices become idle.
"""

from __future__ import annotations

import numpy as np

from lab.media.tape import GAP_SHIFT, READ, TRACE_KIND_SHIFT, WAIT, WRITE, trace_file

READ_SHARE, ANYWHERE_SHARE, BACK_SHARE = 0.67, 0.5, 0.2
NEAR_LINES, NEAR_REQUESTS, BACK_REQUESTS = 64, 4000, 24
FLUSH_REQUESTS, PAUSE_REQUESTS, PAUSE_CYCLES = 6000, 300, 3000


def random_trace(requests: int, lines: int, seed: int) -> bytes:
    """A trace of so many reads and writes, and the flushes between them."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, lines, requests, dtype=np.uint64)
    dice = rng.random(requests)
    moved = np.arange(requests, dtype=np.uint64) // np.uint64(NEAR_REQUESTS)
    near = moved * np.uint64(NEAR_LINES) + rng.integers(0, NEAR_LINES, requests, dtype=np.uint64)
    line = np.where(dice < ANYWHERE_SHARE, place, near % np.uint64(lines))
    back = np.flatnonzero(dice >= 1 - BACK_SHARE)
    ago = rng.integers(1, BACK_REQUESTS + 1, len(back))
    line[back] = line[np.maximum(back - ago, 0)]
    kind = np.where(rng.random(requests) < READ_SHARE, READ, WRITE)
    flush = rng.random(requests) < 1 / FLUSH_REQUESTS
    kind[flush], line[flush] = WAIT, 0
    paused = rng.random(requests) < 1 / PAUSE_REQUESTS
    gap = np.where(paused, rng.integers(1, PAUSE_CYCLES, requests), 0).astype(np.uint64)
    words = line | kind.astype(np.uint64) << np.uint64(TRACE_KIND_SHIFT)
    words |= gap << np.uint64(GAP_SHIFT)
    return trace_file(words.astype("<u8").tobytes(), lines)

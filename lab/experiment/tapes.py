# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A hash table in the heap, access by access, on any memory of the model.

The accesses are recorded (`nvheap-bench tape`), filtered by a core's data cache, and what leaves it
is replayed on a memory controller.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.media.engine import Engine, value
from lab.media.tape import Filter, Work, read
from lab.run import run

Mode = tuple[str, Work, dict[str, Any]]  # policy of the heap, instructions, memory

# Instructions; all ASSUMED. An operation is a call, a hash and a loop; an access computes an
# address; a persistent pointer is also checked against the region's bounds and added to its base. A
# transaction is begun and ended, and what it logs is copied.
PLAIN = Work(operation=60, access=2)
TRANSACTION = Work(operation=60 + 120, access=2 + 5)


def record(
    bench: Path, folder: Path, policies: Iterable[str], operations: int
) -> dict[str, array[int]]:
    """Accesses by policy of so many insertions and removals, by the program of HeapProgram."""
    words = ["--folder", folder, "--operations", operations]
    tapes: dict[str, array[int]] = {}
    for policy in sorted(set(policies)):
        run([str(word) for word in [bench, "tape", *words, "--policy", policy]])
        tapes[policy] = read(folder / "tape")
    return tapes


def replay_modes(
    engine: Engine,
    tapes: Mapping[str, array[int]],
    folder: Path,
    modes: Mapping[str, Mode],
) -> dict[str, dict[str, Any]]:
    """Each mode's times and energies."""
    # The same accesses on another memory are the same misses: filtered once.
    left: dict[tuple[str, Work], Left] = {}
    found = {}
    for name, (policy, work, on) in modes.items():
        if (policy, work) not in left:
            place = folder / f"{policy}-{work.operation}"
            left[policy, work] = filtered(tapes[policy], work, place)
        found[name] = _second_time(engine, left[policy, work], on)
    return found


class Left(NamedTuple):
    """What leaves the cache of a tape run once, and run twice."""

    once: Path
    twice: Path
    counts: dict[str, int]


def filtered(tape: Iterable[int], work: Work, place: Path) -> Left:
    """Traces beside *place* of what leaves a core's cache."""
    caches = Filter(work)
    once, twice = (place.with_suffix(f".{work.access}.{times}") for times in ("once", "twice"))
    caches.follow(tape)
    once.write_bytes(caches.trace())
    counts = caches.counts
    caches.follow(tape)
    twice.write_bytes(caches.trace())
    return Left(once, twice, counts)


def _second_time(engine: Engine, left: Left, on: dict[str, Any]) -> dict[str, Any]:
    """Of the second time only: caches, the DRAM of mem-mode above all, are warm then."""
    once, twice = (_replay(engine, trace, on) for trace in (left.once, left.twice))
    return {key: twice[key] - once[key] for key in once} | {"counts": left.counts}


def _replay(engine: Engine, trace: Path, on: dict[str, Any]) -> dict[str, float]:
    answer = engine.ask("replay", memory=on, trace=str(trace))
    return {
        "time_ns": answer["time_ns"],
        "instructions": answer["instructions"],
        "energy_pj": value(answer, "energy_pj"),
        "idle_pj": value(answer, "energy_background_pj") + value(answer, "energy_refresh_pj"),
    }

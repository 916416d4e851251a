# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shrink a violation to the fewest lines evicted early that still cause it.

One half of the lines, then one quarter and so on are left out (delta debugging); each try is one
replay. The result is one command.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.campaign import engine as program

TRIES_MAX = 60
TRACE_EVENTS = 12


def shrunk(
    lines: list[int], breaks: Callable[[list[int]], bool], tries: int = TRIES_MAX
) -> list[int]:
    """The fewest of *lines* with which it still breaks; none if it breaks without any."""
    if breaks([]):
        return []
    parts = 2
    while len(lines) > 1 and tries > 0:
        size = -(-len(lines) // parts)
        for at in range(0, len(lines), size):
            rest = lines[:at] + lines[at + size :]
            tries -= 1
            if rest and breaks(rest):
                lines, parts = rest, max(parts - 1, 2)
                break
            if tries <= 0:
                return lines
        else:
            if parts >= len(lines):
                break
            parts = min(len(lines), parts * 2)
    return lines


def as_eviction(lines: list[int]) -> str:
    return ",".join(f"{line:#x}" for line in lines) if lines else "none"


def replayed_small(engine: Path, recording: Path, cut: int, eviction: str) -> dict[str, Any]:
    """The report of the violation with the fewest lines; `evict` reproduces it."""
    report = program.replay(engine, recording, cut, eviction, TRACE_EVENTS, None)
    lines: list[int] = report["lines"]

    def breaks(some: list[int]) -> bool:
        again = program.replay(engine, recording, cut, as_eviction(some), 0, None)
        return isinstance(again["outcome"]["verdict"], dict)

    if lines and not breaks(lines):  # torn lines: the tearing matters
        return {**report, "evict": eviction}
    few = shrunk(lines, breaks)
    report = program.replay(engine, recording, cut, as_eviction(few), TRACE_EVENTS, None)
    return {**report, "evict": as_eviction(few)}


def command(recording: Path, cut: int, evict: str) -> str:
    """The command to reproduce it."""
    words = f"./rem replay {recording} --cut {cut}"
    return words if evict == "none" else f"{words} --evict {evict}"

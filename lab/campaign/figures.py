# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures of a campaign: pure functions of its file of results."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.campaign.store import Store

PLACES = ("running", "stop-park", "stop-save", "stop-commit", "loader", "go-cpus", "go-devices")
# Cuts where nothing is decided are cheap; so each kind has a minimum share.
NEAR_MIN, PLACE_MIN, OUTCOME_MIN = 0.25, 0.10, 0.20


@dataclass(frozen=True)
class Mix:
    """Shares of all images."""

    near: float
    resumed: float
    cold: float
    places: dict[str, float]

    def _too_few(self) -> list[tuple[str, str, float, float]]:
        """Name, kind of cuts that brings more, share, and the smallest that is enough."""
        wanted = [
            ("near commit or consume", "near", self.near, NEAR_MIN),
            ("resumed", "enterable", self.resumed, OUTCOME_MIN),
            ("cold boots", "running", self.cold, OUTCOME_MIN),
            *((f"in {place}", place, share, PLACE_MIN) for place, share in self.places.items()),
        ]
        return [line for line in wanted if line[2] < line[3]]

    def missing(self) -> list[str]:
        """The shares that are too small."""
        return [
            f"{name}: {share:.1%} of the images, at least {least:.0%} are required"
            for name, _, share, least in self._too_few()
        ]

    def kinds(self) -> tuple[str, ...]:
        """The engine's names of the kinds of cuts that there are too few of."""
        return tuple(sorted({kind for _, kind, _, _ in self._too_few()}))


def mix(store: Store) -> Mix:
    total = max(1, store.images())

    def share(condition: str, *values: str) -> float:
        count = store.scalar(f"SELECT count(*) FROM image WHERE {condition}", *values)
        return float(count) / total

    return Mix(
        near=share("near"),
        resumed=share("verdict = 'resumed'"),
        cold=share("verdict = 'cold'"),
        places={place: share("place = ?", place) for place in PLACES},
    )


def table(store: Store) -> list[tuple[str, str, int]]:
    """Place, outcome, how many images."""
    query = """SELECT place, CASE WHEN verdict = 'violation' THEN broken
      WHEN verdict = 'cold' THEN 'cold: ' || reason ELSE verdict END AS outcome, count(*)
      FROM image GROUP BY place, outcome ORDER BY place, outcome"""
    return [(str(place), str(outcome), int(n)) for place, outcome, n in store.rows(query)]


def violations(store: Store) -> list[tuple[str, int, str, str, str]]:
    """Recording, cut, eviction, place, what is broken: the smallest first."""
    query = """SELECT recording, event, eviction, place, broken FROM image
      WHERE verdict = 'violation' ORDER BY evicted, event LIMIT 1000"""
    return [(str(r), int(e), str(v), str(p), str(b)) for r, e, v, p, b in store.rows(query)]


def unseen_lines(store: Store) -> int:
    """Lines that changed after a commit without a store, of all recordings; at their most."""
    query = "SELECT recording, broken FROM image WHERE broken LIKE 'unseen %'"
    most: dict[str, int] = {}
    for recording, broken in store.rows(query):
        found = re.search(r"\blines (\d+)", str(broken))
        lines = int(found[1]) if found else 0
        most[str(recording)] = max(most.get(str(recording), 0), lines)
    return sum(most.values())


def images_per_s(store: Store) -> float:
    """Distinct images per second of the workers' time."""
    query = "SELECT coalesce(sum(CAST(value AS REAL)), 0) FROM campaign WHERE name = 'elapsed_s'"
    elapsed_s = float(store.scalar(query))
    return store.images() / elapsed_s if elapsed_s else 0.0

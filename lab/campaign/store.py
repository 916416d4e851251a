# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Results of a campaign, in one SQLite file.

A slice and its results become durable in one transaction, so that a killed campaign continues where
it was. An image is one row, however many cuts leave it; a violation replaces a row without one,
since the same media may be right at one place and wrong at another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.campaign.engine import Judged, Work, broken_text
from lab.errors import InfraError, UsageError

SCHEMA = """
CREATE TABLE IF NOT EXISTS campaign (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS slice (
  recording TEXT, round INTEGER, slice INTEGER, slices INTEGER, made INTEGER, cpu_ns INTEGER,
  PRIMARY KEY (recording, round, slice)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS image (
  recording TEXT, digest TEXT, event INTEGER, write_backs INTEGER, time_ns INTEGER, place TEXT,
  eviction TEXT, evicted INTEGER, reason TEXT, sequence INTEGER, verdict TEXT, broken TEXT,
  class TEXT, near INTEGER, PRIMARY KEY (recording, digest)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS boot (
  class TEXT, recording TEXT, event INTEGER, eviction TEXT, expected TEXT, found TEXT,
  agrees INTEGER, cpu_ns INTEGER);
"""
COLUMNS = [
    *("recording", "digest", "event", "write_backs", "time_ns", "place", "eviction", "evicted"),
    *("reason", "sequence", "verdict", "broken", "class", "near"),
]
_INSERT = f"""INSERT INTO image ({", ".join(COLUMNS)})
VALUES ({", ".join("?" for _ in COLUMNS)})
ON CONFLICT (recording, digest) DO UPDATE SET
{", ".join(f"{name} = excluded.{name}" for name in COLUMNS[2:])}
WHERE excluded.verdict = 'violation' AND image.verdict != 'violation'"""


class Store:
    """See the module."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.db = sqlite3.connect(path)
            self.db.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise InfraError(f"{path}: {error}; take another file for the results") from error

    def close(self) -> None:
        self.db.close()

    def describe(self, facts: dict[str, str]) -> None:
        """Record what is checked; refuse a file with results of something else."""
        known = dict(self.db.execute("SELECT name, value FROM campaign"))
        for name, value in facts.items():
            if name in known and known[name] != value:
                raise UsageError(
                    f"{self.path} holds a campaign with another {name} ({known[name]}):"
                    " name another file, or remove this one"
                )
        with self._kept():
            self.db.executemany("INSERT OR REPLACE INTO campaign VALUES (?, ?)", facts.items())

    def replace_fact(self, name: str, value: str) -> None:
        with self._kept():
            self.db.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?)", (name, value))

    def forget(self, recording: str) -> None:
        """Remove everything of one recording, which is recorded again."""
        with self._kept():
            for table in ("slice", "image", "boot"):
                self.db.execute(f"DELETE FROM {table} WHERE recording = ?", (recording,))

    def share_entered(self) -> float:
        """The share of images that are resumed."""
        resumed = self.scalar("SELECT count(*) FROM image WHERE verdict = 'resumed'")
        return float(resumed) / max(1, self.images())

    def violations_of(self, recording: str) -> int:
        query = "SELECT count(*) FROM image WHERE recording = ? AND verdict = 'violation'"
        return int(self.scalar(query, recording))

    def done(self, recording: str) -> set[tuple[int, int]]:
        """Rounds and slices that are complete."""
        rows = self.db.execute("SELECT round, slice FROM slice WHERE recording = ?", (recording,))
        return set(rows)

    def add(self, judged: Judged) -> None:
        work = judged.work
        rows = [_row(work, outcome) for outcome in judged.outcomes]
        with self._kept():
            self.db.executemany(_INSERT, rows)
            self.db.execute(
                "INSERT OR REPLACE INTO slice VALUES (?, ?, ?, ?, ?, ?)",
                (work.recording, work.round, work.slice, work.slices, *_cost(judged)),
            )

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """One transaction: all of it is in the file, or nothing and an error of one line."""
        try:
            with self.db:
                yield
        except sqlite3.Error as error:
            raise InfraError(
                f"{self.path}: {error}; earlier results are kept: make room and continue with"
                " the same command"
            ) from error

    def add_elapsed(self, elapsed_s: float) -> None:
        """The workers' time by the wall clock; of all sessions."""
        with self._kept():
            self.db.execute(
                "INSERT INTO campaign VALUES ('elapsed_s', ?) ON CONFLICT (name)"
                " DO UPDATE SET value = CAST(value AS REAL) + excluded.value",
                (str(elapsed_s),),
            )

    def add_boot(self, row: tuple[Any, ...]) -> None:
        with self._kept():
            self.db.execute("INSERT INTO boot VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def booted(self) -> int:
        """Distinct images that were booted."""
        return self._booted("1")

    def disagreements(self) -> int:
        """Booted images that behaved differently from the engine's verdict."""
        return self._booted("NOT agrees")

    def _booted(self, condition: str) -> int:
        images = f"SELECT DISTINCT recording, event, eviction FROM boot WHERE {condition}"
        return int(self.scalar(f"SELECT count(*) FROM ({images})"))

    def images(self) -> int:
        return int(self.scalar("SELECT count(*) FROM image"))

    def scalar(self, query: str, *values: Any) -> Any:
        return self.db.execute(query, values).fetchone()[0]

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        yield from self.db.execute(query, values)


def _cost(judged: Judged) -> tuple[int, int]:
    return judged.made, judged.cpu_ns


def _row(work: Work, outcome: dict[str, Any]) -> tuple[Any, ...]:
    broken = broken_text(outcome["verdict"])
    values = {
        **outcome,
        "recording": work.recording,
        "verdict": "violation" if broken else outcome["verdict"],
        "broken": broken,
        "near": int(outcome["near"]),
    }
    return tuple(values[name] for name in COLUMNS)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shows what set-up does: a bar with the step's name on a terminal, plain lines elsewhere.

Nothing is shown, and nothing imported, until the first step begins: a machine that is set up
already starts without a word.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from lab.messages import info, is_terminal


class Step(Protocol):
    """What the work of one step sees."""

    def advance(self, count: int = 1) -> None: ...


class _Plain:
    def advance(self, count: int = 1) -> None:
        del count  # a log is no place for a bar


class _Bar:
    def __init__(self, bar: object, task: object) -> None:
        self._bar, self._task = bar, task

    def advance(self, count: int = 1) -> None:
        self._bar.advance(self._task, count)  # type: ignore[attr-defined]


class Progress:
    """Handed through set-up; remembers how long each step took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Step]:
        """One named step; `total` is about how often `advance` will be called, if known."""
        began = time.monotonic()
        if is_terminal():
            with self._terminal_step(name, total) as shown:
                yield shown
        else:
            info(f"set-up: {name} ...")
            yield _Plain()
        took = time.monotonic() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        info(f"set-up: {name}: done in {took:.0f} s")

    @staticmethod
    @contextmanager
    def _terminal_step(name: str, total: int | None) -> Iterator[Step]:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
        )
        with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Bar(bar, bar.add_task(f"set-up: {name}", total=total))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Show the progress of whatever takes more than a few seconds.

    with step("kernel: compile", total=1500, unit="objects") as shown:
        shown.advance()

On a terminal each open step has a bar with the work done, its total, and the time left; steps of
several threads have a bar each. Elsewhere a step prints a line when it begins, one every
REPORT_INTERVAL_S while it lasts, and one when it ends. All of it goes to stderr.

    with waiting("mkfs"):

is a step that is shown if it lasts longer than WAIT_SHOWN_AFTER_S and is not part of another step.
All programs that lab/run.py waits for are such steps, so no long wait is silent.

Nothing is imported or printed until the first step is shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from lab.messages import info, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

WAIT_SHOWN_AFTER_S = 5.0
TICK_S = 1.0
REPORT_INTERVAL_S = 30.0  # between two lines of a step without a terminal
ESTIMATE_SHARE_MIN = 0.02  # of the work; before that an estimate of the rest is meaningless


class Step:
    """One open step. Its methods may be called from any thread."""

    def __init__(
        self, name: str, total: float | None, unit: str, shown_after_s: float = 0.0
    ) -> None:
        self.name = name
        self.shown = False
        self.shown_after_s = shown_after_s
        self.total = total
        self.unit = unit
        self.done = 0.0
        self._before = 0.0  # done by an earlier run: not part of this run's rate
        self.began_s = self.reported_s = time.monotonic()
        self._lock = threading.Lock()

    def advance(self, count: float = 1) -> None:
        """Count finished work."""
        with self._lock:
            self.done += count
        _display.update(self)

    def reach(self, done: float, total: float | None = None) -> None:
        """Set the work done, and its total if that is known only during the step."""
        with self._lock:
            self.done = done
            self.total = total if total is not None else self.total
        _display.update(self)

    def skip(self, done: float, total: float) -> None:
        """Begin with work that an earlier, interrupted run has done."""
        with self._lock:
            self._before = done
        self.reach(done, total)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def shown_total(self) -> float | None:
        """The total; never less than the work done, because a total may be an estimate."""
        return None if self.total is None else max(self.total, self.done)

    def left_s(self) -> float | None:
        """The time left at the rate so far, or None while it is unknown."""
        total, done = self.shown_total(), self.done - self._before
        if not total or done <= 0 or done < ESTIMATE_SHARE_MIN * total:
            return None
        return self.elapsed_s * (total - self.done) / done

    def report_is_due(self) -> bool:
        """Whether REPORT_INTERVAL_S have passed since this last returned true."""
        now_s = time.monotonic()
        due = now_s - self.reported_s >= REPORT_INTERVAL_S
        self.reported_s = now_s if due else self.reported_s
        return due

    def line(self) -> str:
        """The state of the step in one line."""
        words = [self.amount()] if self.amount() else []
        words.append(f"{duration(self.elapsed_s)} so far")
        left_s = self.left_s()
        if left_s is not None:
            words.append(f"about {duration(left_s)} left")
        return f"{self.name}: {', '.join(words)}"

    def amount(self) -> str:
        """Return the work done, and its total."""
        total = self.shown_total()
        unit = f" {self.unit}" if self.unit else ""
        if total is not None:
            return f"{self.done:,.0f} of {total:,.0f}{unit}"
        return f"{self.done:,.0f}{unit}" if self.done else ""


@contextmanager
def step(name: str, total: float | None = None, unit: str = "") -> Iterator[Step]:
    """Show one step while the body runs."""
    with _opened(Step(name, total, unit)) as opened:
        yield opened


@contextmanager
def waiting(name: str) -> Iterator[None]:
    """Show a step if it lasts, and if the caller has not opened one."""
    if _inside.get():
        yield
        return
    with _opened(Step(name, None, "", WAIT_SHOWN_AFTER_S)):
        yield


@contextmanager
def _opened(opened: Step) -> Iterator[Step]:
    token = _inside.set(True)
    _display.begin(opened)
    failed = True
    try:
        yield opened
        failed = False
    finally:
        _display.end(opened, failed)
        _inside.reset(token)


def duration(seconds: float) -> str:
    """Seconds below two minutes, else minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class _Display:
    """All open steps of the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[Step] = []
        self._bars: _Bars | None = None
        self._ticker: threading.Thread | None = None
        self._idle = threading.Event()

    def begin(self, opened: Step) -> None:
        with self._lock:
            self._open.append(opened)
            if opened.shown_after_s == 0:
                self._show(opened)
            if self._ticker is None:
                self._idle = threading.Event()
                self._ticker = threading.Thread(target=self._tick, args=(self._idle,), daemon=True)
                self._ticker.start()

    def update(self, opened: Step) -> None:
        bars = self._bars
        if bars is not None and opened.shown:
            bars.update(opened)

    def end(self, opened: Step, failed: bool) -> None:
        with self._lock:
            self._open.remove(opened)
            if opened.shown:
                if self._bars is not None:
                    self._bars.end(opened)
                how = "failed after" if failed else "done in"
                info(f"rem: {opened.name}: {how} {duration(opened.elapsed_s)}")
            if not any(other.shown for other in self._open) and self._bars is not None:
                self._bars.close()
                self._bars = None
            if not self._open:
                self._idle.set()
                self._ticker = None

    def _show(self, opened: Step) -> None:
        opened.shown = True
        if is_terminal():
            self._bars = self._bars or _Bars()
            self._bars.begin(opened)
        else:
            info(f"rem: {opened.name} ...")

    def _tick(self, idle: threading.Event) -> None:
        """Show steps that last long, and print lines for them."""
        while not idle.wait(TICK_S):
            with self._lock:
                if idle.is_set():
                    return
                for opened in self._open:
                    if not opened.shown and opened.elapsed_s >= opened.shown_after_s:
                        self._show(opened)
                    if self._bars is None and opened.shown and opened.report_is_due():
                        info(f"rem: {opened.line()}")


class _Bars:
    """The bars of a terminal. Other output of the process is printed above them."""

    def __init__(self) -> None:
        import sys

        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
        self._shown: Progress = RichProgress(
            *columns,
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(stderr=True),
            transient=True,
            # Results that go to a file or a pipe are not affected by this display.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._tasks: dict[int, TaskID] = {}
        self._shown.start()

    def begin(self, shown: Step) -> None:
        self._tasks[id(shown)] = self._shown.add_task(
            shown.name, total=shown.shown_total(), state=""
        )

    def update(self, shown: Step) -> None:
        left_s = shown.left_s()
        state = shown.amount() + (f", {duration(left_s)} left" if left_s is not None else "")
        task = self._tasks.get(id(shown))
        if task is not None:
            total = shown.shown_total()
            self._shown.update(task, completed=shown.done, total=total, state=state)

    def end(self, shown: Step) -> None:
        self._shown.remove_task(self._tasks.pop(id(shown)))

    def close(self) -> None:
        self._shown.stop()


_display = _Display()
_inside: ContextVar[bool] = ContextVar("inside", default=False)  # a step of this thread

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Progress: what is done, of how much, and the time left; plain lines where there is no terminal.

Method: the clock is replaced; the terminal is a pseudo-terminal of a child.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time

import pytest

from lab import progress, run
from lab.paths import repo_dir
from lab.progress import Step, duration, step, waiting


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(progress.time, "monotonic", fake)
    return fake


def test_time_left_follows_the_rate_of_this_run(clock: Clock) -> None:
    shown = Step("compile", 100, "objects")
    assert shown.left_s() is None
    clock.now_s += 10
    shown.advance(20)
    assert shown.left_s() == 40
    assert shown.line() == "compile: 20 of 100 objects, 10 s so far, about 40 s left"
    continued = Step("compile", None, "objects")
    continued.skip(50, 100)  # an earlier run did half of it
    assert continued.left_s() is None
    clock.now_s += 10
    continued.advance(25)
    assert continued.left_s() == 10
    assert continued.line().startswith("compile: 75 of 100 objects")


def test_an_estimate_that_is_too_small_is_never_shown_as_more_than_all() -> None:
    shown = Step("compile", 10, "")
    shown.advance(12)
    assert shown.amount() == "12 of 12"
    assert shown.left_s() is not None


def test_without_a_total_nothing_is_guessed(clock: Clock) -> None:
    shown = Step("fetch", None, "")
    clock.now_s += 200
    assert shown.line() == "fetch: 3 min so far"
    assert duration(119) == "119 s"


def test_plain_lines_at_begin_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    with step("one"):
        pass
    with pytest.raises(KeyError), step("two"):
        raise KeyError
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "rem: one ...",
        "rem: one: done in 0 s",
        "rem: two ...",
        "rem: two: failed after 0 s",
    ]


def test_each_open_step_reports_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    with step("first", total=4) as first, step("second"):
        first.advance()
        deadline_s = time.monotonic() + 60
        err = ""
        while time.monotonic() < deadline_s and "second: " not in err:
            time.sleep(0.02)
            err += capsys.readouterr().err
    assert "rem: first: 1 of 4" in err
    assert "left" in err


def test_a_wait_is_shown_only_if_it_lasts_and_is_part_of_no_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    with waiting("short"):
        pass
    monkeypatch.setattr(progress, "WAIT_SHOWN_AFTER_S", 0.05)
    with step("outer"), waiting("inner"):
        time.sleep(0.2)
    with waiting("long"):
        deadline_s = time.monotonic() + 60
        err = ""
        while time.monotonic() < deadline_s and "long ..." not in err:
            time.sleep(0.02)
            err += capsys.readouterr().err
    err += capsys.readouterr().err
    assert "rem: long: done in" in err
    assert "short" not in err
    assert "inner" not in err


def test_a_program_that_takes_long_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    monkeypatch.setattr(progress, "WAIT_SHOWN_AFTER_S", 0.0)
    run.run(["true"], what="a program")
    assert "rem: a program: done in" in capsys.readouterr().err


def test_steps_of_several_threads_may_be_open_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    meet = threading.Barrier(4)

    def work(name: str) -> None:
        with step(name, total=50) as shown:
            meet.wait()
            for _ in range(50):
                shown.advance()
            assert shown.done == 50

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().err.count("done in") == 4


SCRIPT = """
import sys, time
from lab.progress import step
from lab.messages import info as say
with step("compile", total=100, unit="objects") as one, step("fetch") as two:
    for _ in range(60):
        one.advance()
        time.sleep(0.01)
    say("a line of another part")
    print("a result")
"""


def test_a_terminal_has_a_bar_for_each_step() -> None:
    """Results go to standard output and no bar does."""
    owner, terminal = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=repo_dir(),
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            data = os.read(owner, 4096)
        except OSError:  # the terminal has no user any more
            break
        if not data:
            break
        shown += data
    out, _ = child.communicate(timeout=60)
    os.close(owner)
    assert child.returncode == 0
    assert out == "a result\n"
    text = shown.decode()
    for expected in ("compile", "fetch", " of 100 objects", " left", "a line of another part"):
        assert expected in text, expected

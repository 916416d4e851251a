# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem` as a user runs it: a process, with machines and results in a folder of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import Exit
from lab.paths import repo_dir


def environment(state: Path) -> dict[str, str]:
    return {**os.environ, "REM_STATE": str(state)}


def rem(state: Path, *words: str | Path, limit_s: float) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [repo_dir() / "rem", *words],
        env=environment(state),
        text=True,
        capture_output=True,
        timeout=limit_s,
        check=False,
    )
    sys.stderr.write(done.stderr)  # so that the test's report has it
    return done


def figures_of(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    """The figures of a run with --json, which must have passed."""
    assert done.returncode == Exit.PASS, done.stderr
    return {k: v["value"] for k, v in json.loads(done.stdout)["figures"].items()}


def killed_at(
    state: Path, *words: str, enough: Callable[[], bool], limit_s: float, poll_s: float
) -> None:
    """Start it, and SIGKILL all its processes once *enough* is true, or it has ended."""
    child = subprocess.Popen(
        [repo_dir() / "rem", *words],
        env=environment(state),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    ends_at = time.monotonic() + limit_s
    while not enough() and time.monotonic() < ends_at and child.poll() is None:
        time.sleep(poll_s)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()

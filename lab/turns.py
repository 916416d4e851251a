# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whose turn it is where only a part of many can run: the commit decides, and on a slow host the
clock, too (lab/checks/slow_host.py).
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from lab.paths import repo_dir
from lab.run import run

ALL_TURNS_ENV = "REM_TEST_ALL_TURNS"
"""Set where certain tests were asked for: it is the turn of all of them."""

BEGIN_UNTIL_ENV = "REM_TEST_BEGIN_UNTIL"
"""Until when a file may begin, in seconds of time.monotonic(), which all processes share."""

TOO_LATE = "begins too late to end within the budget"
"""The reason of a skip."""

# They run at each commit: short ones, README's commands, and the claims that others build on.
ALWAYS = ("tests/unit", "tests/fresh", "tests/test_claims_cuts.py", "tests/test_record_damage.py")


def runs_always(file: Path) -> bool:
    """Whether a file or folder of tests, a path in the project, takes no turns."""
    return any(file.is_relative_to(top) for top in ALWAYS)


def is_too_late(file: Path) -> bool:
    """Whether this file of tests, a path in the project, may not begin any more."""
    until = os.environ.get(BEGIN_UNTIL_ENV)
    return until is not None and time.monotonic() > float(until) and not runs_always(file)


def head() -> str:
    """Return the commit that is checked out; empty without git."""
    return run(["git", "rev-parse", "HEAD"], cwd=repo_dir(), check=False).stdout.strip()


def turn(commit: str, of: int) -> int:
    """The commit's turn among so many, from 0."""
    return int(hashlib.sha256(commit.encode()).hexdigest(), 16) % of


def rotation(names: list[str], commit: str, count: int) -> list[str]:
    """*count* of the names, others for other commits; every name has its turn."""
    first = turn(commit, max(1, len(names)))
    turned = names[first:] + names[:first]
    return turned[:count]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whose turn it is where only a part of many can run: the commit decides."""

from __future__ import annotations

import hashlib

from lab.paths import repo_dir
from lab.run import run

ALL_TURNS_ENV = "REM_TEST_ALL_TURNS"
"""Set where certain tests were asked for: it is the turn of all of them."""


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

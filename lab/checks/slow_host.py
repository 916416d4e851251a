# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run on a slow host leaves to other runs, by name.

A host on which set-up takes more than its share is slow for tests, too, and the run would end at
its budget with part of its files not begun, and without a report of the others. So files that boot
machines take turns there: the commit chooses half of them. On other hosts all run.
"""

from __future__ import annotations

from pathlib import Path

from lab.turns import turn

TURNS = 2
# They run at each commit: short ones, README's commands, and the claims that others build on.
ALWAYS = ("tests/unit", "tests/fresh", "tests/test_claims_cuts.py", "tests/test_record_damage.py")


def left_out(repo: Path, words: list[str], commit: str) -> list[str]:
    """Files of tests among *words*, files or folders for pytest, whose turn it is not."""
    files = [path.relative_to(repo) for word in words for path in _files(repo / word)]
    names = sorted(str(file) for file in files if not _always(file))
    mine = turn(commit, TURNS)
    return [name for place, name in enumerate(names) if place % TURNS != mine]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(path.rglob("test_*.py"))


def _always(file: Path) -> bool:
    return any(file.is_relative_to(top) for top in ALWAYS)

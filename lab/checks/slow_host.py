# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a run on a slow host leaves to other runs, by name.

There a run would end at its budget with part of its files not begun, and without a report of the
others. So files that boot machines take turns: the commit chooses half of them. On every host,
which may become slow during a run, those are left out that would begin so late that they might not
end. Which ones begin first is the commit's choice, too.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from lab.turns import rotation, runs_always, turn

TURNS = 2
# A loop of Python takes so long on a host on which everything runs in half the budget, and twice as
# long on one on which it does not run in the whole.
LOOP, LOOP_S = 2_000_000, 0.085
LOOPS = 7
SLOW = 1.7
# From nothing, with empty caches, set-up takes less than that on such a host.
SET_UP_MINUTES_MAX = 35.0
# After that many minutes of a run no file begins: the longest takes ten there.
BEGIN_MINUTES_MAX = 68.0


def is_slow(set_up_minutes: float) -> bool:
    """Whether this host is: by its set-up, or by how fast it is now."""
    return set_up_minutes > SET_UP_MINUTES_MAX or loop_s() > SLOW * LOOP_S


def loop_s() -> float:
    """How long the loop takes; the median, as others use the host, too."""
    times = []
    for _ in range(LOOPS):
        begin = time.monotonic()
        total = 0
        for number in range(LOOP):
            total += number
        times.append(time.monotonic() - begin)
    return statistics.median(times)


def left_out(repo: Path, words: list[str], commit: str) -> list[str]:
    """Files of tests among *words*, files or folders for pytest, whose turn it is not."""
    files = [path.relative_to(repo) for word in words for path in _files(repo / word)]
    names = sorted(str(file) for file in files if not runs_always(file))
    mine = turn(commit, TURNS)
    return [name for place, name in enumerate(names) if place % TURNS != mine]


def order(words: list[str], commit: str) -> list[str]:
    """The words: first those that always run, then the others, in another order at other commits,
    as the last ones may be too late.
    """
    machines = [word for word in words if not runs_always(Path(word))]
    always = [word for word in words if runs_always(Path(word))]
    return [*always, *rotation(machines, commit, len(machines))]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(path.rglob("test_*.py"))

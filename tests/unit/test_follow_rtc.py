# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-follow-rtc`: a guest's time of day follows its RTC.

Goal: it is set to the RTC's time where it is behind or far ahead, and left alone else. Method: an
RTC that is a file, and programs `date` and `sleep` of the test's own, in whose world time passes
with each command.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir

START_S = 1_000_000
LIMIT_S = 60
# Time passes while commands run: 30 ms each. After some rounds there is no more sleep, which ends
# the program.
CAT = """#!/bin/sh
real=$(($(/bin/cat "$WORLD/real") + 30))
echo $real >"$WORLD/real"
echo $((real / 1000))
"""
DATE = """#!/bin/sh
real=$(($(/bin/cat "$WORLD/real") + 30))
echo $real >"$WORLD/real"
case $1 in
-s) echo $((${2#@} * 1000 - real)) >"$WORLD/ahead"; echo set >>"$WORLD/sets" ;;
*) echo $((real + $(/bin/cat "$WORLD/ahead")))000000 ;;
esac
"""
SLEEP = """#!/bin/sh
echo x >>"$WORLD/rounds"
echo $(($(/bin/cat "$WORLD/real") + 470)) >"$WORLD/real"
[ "$(wc -l <"$WORLD/rounds")" -le 12 ]
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name, text in (("cat", CAT), ("date", DATE), ("sleep", SLEEP)):
        program = tmp_path / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    (tmp_path / "real").write_text(f"{START_S * 1000}\n")
    (tmp_path / "sets").touch()
    return tmp_path


def follow(world: Path, ahead_ms: int) -> tuple[int, int, list[str]]:
    """How far ahead it is at the end, how often it was set, and what was printed."""
    (world / "ahead").write_text(f"{ahead_ms}\n")
    done = subprocess.run(
        [repo_dir() / "vm" / "fence" / "rem-follow-rtc", world],
        env={"PATH": f"{world / 'bin'}:/usr/bin:/bin", "WORLD": str(world)},
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert not done.stderr
    sets = (world / "sets").read_text().splitlines()
    return int((world / "ahead").read_text()), len(sets), done.stdout.splitlines()


@pytest.mark.parametrize("ahead_ms", [-20_000, -1600, 3100, 3_600_000])
def test_wrong_time_of_day_is_set_once(world: Path, ahead_ms: int) -> None:
    ahead, sets, lines = follow(world, ahead_ms)
    assert abs(ahead) < 500
    assert sets == len(lines) == 1
    assert abs(int(lines[0].split()[2]) + ahead_ms) < 500


@pytest.mark.parametrize("ahead_ms", [-400, 0, 900])
def test_right_time_of_day_is_left_alone(world: Path, ahead_ms: int) -> None:
    assert follow(world, ahead_ms) == (ahead_ms, 0, [])

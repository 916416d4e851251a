# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The core of the persistent memory service, in user space.

Goal: what the kernel modules do with media is right at every cut and under damage. Method: the
tests of pm/test, over persistent memory that records stores, flushes and fences, with sanitizers;
each of the planted bugs must make them fail; a short run of each fuzzer. The judge of
`rem campaign --pm` judges the smallest recording there is: whole, wrong, cut short.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import cache_dir, repo_dir

SOAK_RUNS = 10_000_000
PLANTED_MIN = 20  # a build without the planted bugs would find none, and pass


def out_dir() -> Path:
    return cache_dir() / "pm-test"


def make(*words: str, limit_s: float = 550) -> str:
    """One goal of pm/Makefile; its output. A failure shows what the tests said."""
    argv = ["nice", "make", "-s", "-C", str(repo_dir() / "pm"), f"OUT={out_dir()}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def every_test_passes(goal: str) -> None:
    said = make(goal)
    match = re.search(r"^(\d+) checks, 0 failed$", said, re.MULTILINE)
    assert match is not None, said
    assert int(match[1]) > 1_000_000  # the exhaustive ones did run


def test_the_core_holds_at_every_cut_and_under_damage() -> None:
    every_test_passes("quick")


def sample(folder: Path, *words: str) -> list[str]:
    """A recording of one window, in FOLDER; how pm-judge is called for it."""
    make("judge", "sample")
    argv = [out_dir() / "pm-sample", folder, *words]
    where = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    return [str(out_dir() / "pm-judge"), str(folder), *where]


def judged(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)


def test_the_judge_of_recordings_sees_what_was_promised_and_what_was_not(tmp_path: Path) -> None:
    for words, violations in (((), 0), (("wrong",), 1)):
        done = judged(sample(tmp_path, *words))
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["operations"], told["violations"]) == (1, violations)
        assert bool(told["first"]) == bool(violations)


def test_a_recording_that_is_cut_short_or_damaged_is_refused(tmp_path: Path) -> None:
    argv = sample(tmp_path)
    recording = tmp_path / "recording.bin"
    whole = recording.read_bytes()
    event = 16  # bytes of the last one, the window's end
    for size in range(128, len(whole), 8):
        recording.write_bytes(whole[:size])
        done = judged(argv)
        assert (done.returncode, done.stdout) == (4, ""), size
        assert "cut short, or damaged" in done.stderr or "no window" in done.stderr
    recording.write_bytes(whole[:-event] + bytes(event))
    assert judged(argv).returncode == 4


@pytest.mark.full
def test_the_same_with_sanitizers() -> None:
    every_test_passes("test")


@pytest.mark.full
def test_every_planted_bug_is_found() -> None:
    make("mutants")
    count = subprocess.run(
        [out_dir() / "pm-mutants", "--count"], capture_output=True, text=True, check=True
    )
    assert int(count.stdout) >= PLANTED_MIN


@pytest.mark.full
def test_no_bytes_of_media_break_the_parsers() -> None:
    said = make("fuzz")
    assert len(re.findall(r"^fuzz-\w+: Done \d+ runs", said, re.MULTILINE)) == 2


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
def test_ten_million_inputs_break_nothing() -> None:
    runs = os.environ.get("REM_FUZZ_RUNS", str(SOAK_RUNS))
    make("fuzz", f"FUZZ_RUNS={runs}", limit_s=12 * 3600)

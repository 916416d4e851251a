# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The core of the persistent memory service, in user space.

Goal: what the kernel modules do with media is right at every cut and under damage. Method: the
tests of pm/test, over persistent memory that records stores, flushes and fences, with sanitizers;
each of the planted bugs must make them fail; a short run of each fuzzer.
"""

from __future__ import annotations

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

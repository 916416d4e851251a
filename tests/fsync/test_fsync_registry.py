# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The registry as hostile bytes, ten million times for each of its readers: what rem-replay reads
is what a second, simple reader finds (replay/src/hostile.rs), and it writes no file that a record
does not name by handle, inode and file system (replay/src/foreign.rs); the loader copies no page
from or to where none may be (loader/host/fuzz_registry.c). So the redo area: the kernel writes
nothing to a disk that no ring has.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.setup.cargo import cargo_env
from tests.support.decisions import judge_hostile_redo_areas

CASES = int(os.environ.get("REM_REPLAY_CASES", "10000000"))
WORDS = ("cargo", "test", "--locked", "--release", "-p", "remanence-replay", "--lib")


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("cases", "passed"), [("hostile", 2), ("foreign", 3)])
def test_ten_million_registries_do_no_harm(cases: str, passed: int) -> None:
    done = run(
        [*WORDS, cases, "--", "--nocapture"],
        cwd=repo_dir(),
        env=cargo_env() | {"REM_REPLAY_CASES": str(CASES)},
        check=False,
    )
    assert done.ok, done.stdout[-2000:] + done.stderr[-2000:]
    assert f"{CASES} {cases} registries: " in done.stdout
    assert re.search(rf"^test result: ok\. {passed} passed", done.stdout, re.MULTILINE)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_ten_million_registries_do_the_loader_no_harm(tmp_path: Path) -> None:
    words = ("fuzz", "FUZZERS=registry", f"FUZZ_RUNS={CASES}", f"OUT={tmp_path}")
    done = run(["make", "-C", repo_dir() / "loader", *words])
    assert f"fuzz-registry: Done {CASES} runs" in done.stdout


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_million_redo_areas_do_no_harm(tmp_path: Path) -> None:
    assert judge_hostile_redo_areas(tmp_path, CASES).startswith(f"{CASES} hostile areas: ")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The randomised tests of heap/, with many more cases than CI has time for."""

from __future__ import annotations

import os
import re

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.setup.cargo import cargo_env

# How many cases each test has: by default about fifty times those of CI.
COUNTS = {
    "crash": ("NVHEAP_DRAWN", "1000"),
    "histories": ("NVHEAP_DRAWN_HISTORIES", "600"),
    "linear": ("NVHEAP_HISTORIES", "100"),
    "threads": ("NVHEAP_SCHEDULES", "500"),
    "tool": ("NVHEAP_FUZZ_ROUNDS", "10000"),
}


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
@pytest.mark.parametrize("name", COUNTS)
def test_many_more_cases_break_nothing(name: str) -> None:
    variable, count = COUNTS[name]
    which = [name] if name == "tool" else ["transactions", f"{name}::"]
    done = run(
        ["cargo", "test", "--locked", "-p", "nvheap", "--test", *which],
        cwd=repo_dir(),
        env=cargo_env() | {variable: os.environ.get(variable, count)},
        check=False,
    )
    assert done.ok, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(r"^test result: ok\. [1-9]", done.stdout, re.MULTILINE)

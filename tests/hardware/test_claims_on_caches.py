# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what the tests of the claims show without volatile caches holds with them.

Method: the same tests, with REM_TEST_CACHES (tests/support/claims.py). Left out are clocks, which
are compared with the host's, and random numbers, which come from the host: under icount both come
from the machine's seed. So are tests that make their own machine (tests/support/trials.py).
"""

from __future__ import annotations

import sys

import pytest

from lab import run
from lab.paths import repo_dir

PROFILES = ("wsp-c5528", "lightpc")
CLAIMS = (
    "tests/test_claims_cuts.py::test_25_cuts_in_a_row_lose_nothing",
    "tests/test_claims_cuts.py::test_portable_paths_lose_nothing_either",
    "tests/test_claims_programs.py::test_program_that_would_notice_does_not",
)
LIMIT_S = 4 * 3600.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(LIMIT_S)]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_holds_on_volatile_caches(claim: str, profile: str) -> None:
    done = run.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not soak", "-p", "no:cacheprovider", claim],
        cwd=repo_dir(),
        env={"REM_TEST_CACHES": profile},
        timeout_s=LIMIT_S,
        check=False,
    )
    assert done.ok, done.stdout[-4000:]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what the tests of the claims show on x86-64 holds on RISC-V: programs that would notice,
clocks, random numbers, planned Stops, the portable paths, cuts at exact instructions of Stop and
Go, damaged records, power that flaps, disks with volatile caches, and the negative proofs of all
that.

Method: the same tests, with REM_TEST_ARCH (tests/support/claims.py): all of what full has, with all
turns, and not soak. Programs of x86-64 alone are left out.
"""

from __future__ import annotations

import sys

import pytest

from lab import run
from lab.paths import repo_dir
from lab.turns import ALL_TURNS_ENV

CLAIMS = (
    "tests/test_claims_cuts.py::test_portable_paths_lose_nothing_either",
    "tests/test_claims_programs.py",
    "tests/test_claims_time.py",
    "tests/test_planned_stop.py",
    "tests/test_cut_in_stop.py",
    "tests/test_cut_in_go.py",
    "tests/test_hold.py",
    "tests/test_wire_after_go.py",
    "tests/test_budget.py",
    "tests/test_negative_proofs.py",
    "tests/test_record_damage.py",
    "tests/test_power_flaps.py",
    "tests/hardware/test_disk_cache.py",
)
# The guest has no compiler and no debugger, and the wire is not at ports of its own. NVRAM has a
# second range there, behind QEMU's device tree: the mark that a cold boot leaves in it refuses an
# image that was left open.
LEFT_OUT = "not compile and not debugger and not without_a_power_monitor and not left_open"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
LIMIT_S = 2 * 3600.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(LIMIT_S)]


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_holds_on_riscv(claim: str) -> None:
    done = run.run(
        [*PYTEST, "-m", "not soak", "-k", LEFT_OUT, claim],
        cwd=repo_dir(),
        env={"REM_TEST_ARCH": "riscv64", ALL_TURNS_ENV: "1"},
        timeout_s=LIMIT_S,
        check=False,
    )
    assert done.ok, done.stdout[-4000:]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The core of the persistent memory service, in user space.

Goal: what the kernel modules do with media is right at every cut and under damage. Method: the
tests of pm/test, over persistent memory that records stores, flushes and fences, with sanitizers;
each of the planted bugs must make them fail, by the verdict that its patch names; a short run of
each fuzzer.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import cache_dir, repo_dir
from lab.setup.cargo import cargo_env
from lab.setup.patch_series import Patch, Violation, patched_copy
from lab.setup.pm import series

SOAK_RUNS = 10_000_000
PLANTED_MIN = 20
LIBRARY = "libcrash_states.a"  # what a cut may leave, for C
# Of the campaign, of test_pm_guest.py, of test_pm_promise.py and of test_pm_modules.py.
GUEST = ("campaign-pm", "guest-syncs", "guest-promise", "guest-modules")
OF_MODULES = {
    "clean-without-unmap",
    "fetch-by-memcpy",
    "fof-left-behind",
    "format-forces",
    "mkwrite-unlocked",
    "poison-not-cleared",
    "poison-unlisted",
    "remove-while-open",
    "sync-nothing",
    "writer-beside-disk",
}
ROOMS = ("pm", "format", "machine/crash-states/c")


def out_dir() -> Path:
    return cache_dir() / "pm-test"


def make(*words: str, where: Path | None = None, limit_s: float = 550) -> str:
    """One goal of pm/Makefile; its output. A failure shows what the tests printed."""
    folder = (where or repo_dir()) / "pm"
    argv = ["nice", "make", "-s", "-C", str(folder), f"OUT={out_dir()}", *words]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        env=os.environ | cargo_env(),
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


def check_that_all_pass(goal: str) -> None:
    output = make(goal)
    match = re.search(r"^(\d+) checks, 0 failed$", output, re.MULTILINE)
    assert match is not None, output
    assert int(match[1]) > 1_000_000  # the exhaustive ones did run


def test_core_holds_at_every_cut_and_under_damage() -> None:
    check_that_all_pass("quick")


@pytest.mark.in_turn
@pytest.mark.full
def test_core_holds_with_sanitizers() -> None:
    check_that_all_pass("test")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tests of a copy of the core with all planted bugs."""
    make("quick")  # and so the library
    library = Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / LIBRARY
    folder = tmp_path_factory.mktemp("planted")
    patched_copy(repo_dir(), ROOMS, series().patches, folder)
    program = folder / "pm-quick"
    make(f"OUT={folder}", f"CRASH_STATES={library}", str(program), where=folder)
    yield program


def host_checks(patch: Patch) -> list[Violation]:
    """What these tests must find; the other verdicts are those of a whole guest."""
    return [violation for violation in patch.violates if violation.promise not in GUEST]


def host_names() -> list[str]:
    return [patch.name for patch in series().mutants if host_checks(patch)]


def run_planted(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = ["nice", str(program), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.full
@pytest.mark.parametrize("name", host_names())
def test_planted_bug_is_found_by_its_own_verdict(planted: Path, name: str) -> None:
    checks = host_checks(series()[name])
    for promise, verdict in ((check.promise, check.verdict) for check in checks):
        words = ("--mutant", name, "--only", promise, "--until", verdict)
        done = run_planted(planted, *words)
        assert done.returncode == 0, f"not found as {promise}: {verdict}\n{done.stderr}"


@pytest.mark.full
def test_copy_without_a_planted_bug_passes(planted: Path) -> None:
    assert len(host_names()) >= PLANTED_MIN
    assert set(series().names) - set(host_names()) == OF_MODULES
    assert run_planted(planted).returncode == 0
    # A verdict that nothing reports is not found.
    words = ("--only", "block-cuts", "--until", "not-atomic")
    assert run_planted(planted, *words).returncode == 1


@pytest.mark.full
def test_no_bytes_of_media_break_the_parsers() -> None:
    output = make("fuzz")
    assert len(re.findall(r"^fuzz-\w+: Done \d+ runs", output, re.MULTILINE)) == 2


@pytest.mark.soak
@pytest.mark.timeout(12 * 3600)
def test_ten_million_inputs_break_nothing() -> None:
    runs = os.environ.get("REM_FUZZ_RUNS", str(SOAK_RUNS))
    make("fuzz", f"FUZZ_RUNS={runs}", limit_s=12 * 3600)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem test`: the Python tests of all shares in one run, so that no worker waits at the end of each
share; linters and the crates of every share beside them, as tests of machines leave a tenth of the
host idle. The runners' own last lines come last.

All runners run even if one fails. A tier that CI runs at every change has a budget; exceeding it
is a failure. lab/checks/shares.py has the tests of each share.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from lab.checks import junit, slow_host
from lab.checks.lint import lint
from lab.checks.shares import (
    BUDGET_MINUTES,
    CORE,
    SHARES,
    Share,
    crate_folders,
    crate_name,
    pytest_words,
)
from lab.errors import Exit, HangError, RemError, UsageError
from lab.messages import info
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup.cache import products
from lab.setup.cargo import Rust, cargo_env
from lab.setup.cargo_tests import CheckedCrates, TestCrates, cargo_test_words
from lab.setup.checkpatch import Checkpatch
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.packages import ALL_TESTS, QUICK_TESTS
from lab.setup.products import Kernel, Loader, Packages, Part, Plugin, Power, Root, need_all
from lab.turns import ALL_TURNS_ENV, BEGIN_UNTIL_ENV, head


class Tier(StrEnum):
    """How much is run."""

    QUICK = "quick"
    FULL = "full"
    SOAK = "soak"


MARKERS = {Tier.QUICK: "not full and not soak", Tier.FULL: "not soak", Tier.SOAK: ""}

# Programs of the linters and tests, and what most machines take.
_QUICK: tuple[Part[Any], ...] = (Packages(QUICK_TESTS), Rust(), CheckedCrates(), Checkpatch())
_FULL: tuple[Part[Any], ...] = (
    *_QUICK,
    Packages(ALL_TESTS),
    Loader(),
    Plugin(),
    Power(),
    Root(),
    Kernel(),
)
# For negative proofs. After all that is built in the tree of the kernel without planted bugs.
_PLANTED: tuple[Part[Any], ...] = (
    Loader(mutants=True),
    Kernel("mutants"),
    KernelHeaders("mutants"),
)

WORKER_MEMORY_BYTES = 4 << 30  # a machine's NVRAM and QEMU, and room for a second one
TEMPORARY_BYTES = 24 << 30  # two recordings, and what other tests write
# In TestRun.minutes.
SET_UP, LINTERS, PYTEST = "set-up", "core: linters", "tests in Python"
NO_TESTS = 5  # pytest's exit status if a tier has none in a folder
LONGEST_FILES = 12  # printed at the end
# The last line of a runner, with the numbers of tests.
_PYTEST_LAST = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+ in [\d.]+s.*?)\s*=*$")
_CARGO_LAST = re.compile(r"^test result: .*")


@dataclass
class TestRun:
    """What has run so far."""

    __test__ = False  # pytest: this is no test

    tier: Tier
    minutes: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: {"failed": 0, "skipped": 0})
    longest: list[tuple[str, float]] = field(default_factory=list)  # files, minutes of a worker
    made_by_tests: list[str] = field(default_factory=list)  # products that set-up had not made
    left_out: list[str] = field(default_factory=list)  # files that are left to other commits
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def share(self, name: str) -> Iterator[None]:
        """Measure the time; an error is reported and counted, and the next share runs."""
        begin = time.monotonic()
        info(f"== {name}")
        try:
            yield
        except RemError as error:
            info(f"{name}: {error.message}")
            self.failed.append(name)
        minutes = (time.monotonic() - begin) / 60
        self.minutes[name] = self.minutes.get(name, 0.0) + minutes

    def add(self, share: str, tests: junit.Tests) -> None:
        """Count a share's tests. One that was skipped has shown nothing, which is a failure, unless
        it is of the quick tier and needs root, without which that tier can run, or of a file that
        is left to other commits.
        """
        self.minutes[share] = self.minutes.get(share, 0.0) + tests.minutes / workers()
        self.counts["failed"] += tests.failed
        self.counts["skipped"] += tests.skipped
        if tests.failed:
            self.failed.append(f"{share}: {tests.failed} failed")
        excused = tests.without_root if self.tier is Tier.QUICK else tests.too_late
        if tests.skipped > excused:
            self.failed.append(f"{share}: {tests.skipped} skipped")

    @property
    def total_minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

    @property
    def set_up_minutes(self) -> float:
        """Packages and products, before the first share."""
        return self.minutes.get(SET_UP, 0.0)

    def left_s(self) -> float | None:
        """The rest of the budget, as a runner's limit."""
        if self.tier is Tier.SOAK:
            return None
        return max(1.0, (BUDGET_MINUTES - self.total_minutes) * 60)

    def over_budget(self) -> bool:
        return self.tier is not Tier.SOAK and self.total_minutes > BUDGET_MINUTES

    def exit_code(self) -> Exit:
        if self.over_budget():
            return Exit.HANG
        return Exit.BROKEN if self.failed else Exit.PASS


def run_tier(tier: Tier, words: list[str], without: Collection[str] = ()) -> TestRun:
    """Run everything of the tier. An error of set-up ends it, as nothing can run without."""
    test = TestRun(tier)
    begin = time.monotonic()
    if unknown := set(without) - {share.name for share in SHARES}:
        raise UsageError(f"--without {min(unknown)}: {', '.join(s.name for s in SHARES)}")
    need_all(parts_of(tier, without, chosen=bool(words)))
    test.minutes[SET_UP] = (time.monotonic() - begin) / 60
    if words:  # certain tests only
        with test.share(PYTEST):
            _pytest(test, words, must_find=True, all_turns=True)
        return test
    before = products()
    shares = [share for share in SHARES if share.name not in without]
    if CORE in shares:
        with test.share(CORE.name):
            _loader(test)
    with ThreadPoolExecutor(1) as beside:
        printed = beside.submit(_check_beside, test, shares)
        if tests := [word for share in shares for word in pytest_words(repo_dir(), share)]:
            if tier is Tier.FULL:
                if slow_host.is_slow(test.set_up_minutes):
                    test.left_out = slow_host.left_out(repo_dir(), tests, head())
                tests = slow_host.order(tests, head())
            with test.share(PYTEST):
                _pytest(test, tests, must_find=not without)
    for line in printed.result():
        info(line)
    test.made_by_tests = sorted(products() - before)
    return test


def parts_of(tier: Tier, without: Collection[str], chosen: bool) -> list[Part[Any]]:
    """What set-up makes, so that the shares' time is that of tests.

    *chosen*: a user named certain tests. These ask for what else they need.
    """
    machines = tier is not Tier.QUICK
    parts = [*(_FULL if machines else _QUICK)]
    for share in SHARES:
        if share.name in without or chosen:
            continue
        parts += share.parts if machines else ()
        if names := _crate_names(share):
            parts.append(TestCrates(names))
    return [*parts, *(_PLANTED if machines else ())]


def _crate_names(share: Share) -> tuple[str, ...]:
    repo = repo_dir()
    return tuple(crate_name(repo, folder) for folder in crate_folders(repo, share))


def _check_beside(test: TestRun, shares: list[Share]) -> list[str]:
    """Linters, and the crates of each share; return what they print."""
    lines: list[str] = []
    if CORE in shares:
        with test.share(LINTERS):
            test.failed += lint(repo_dir(), lines.append, all_figures=test.tier is Tier.SOAK)
    for share in shares:
        if crates := _crate_names(share):
            lines.append(f"== {share.name}: crates")
            with test.share(share.name):
                _cargo(test, share.name, crates, lines)
    return lines


def _cargo(test: TestRun, share: str, crates: tuple[str, ...], printed: list[str]) -> None:
    lines: list[str] = []
    argv = cargo_test_words(crates)
    log = f"cargo-{_file_name(share)}"
    if _runner(argv, log, test, lines, env=cargo_env(), print_line=printed.append) != 0:
        test.failed.append(f"{share}: rust")
    test.last_lines += [line for line in lines if _CARGO_LAST.match(line)]


def _loader(test: TestRun) -> None:
    goals = ["test"] if test.tier is Tier.QUICK else ["test", "all", "tools"]
    argv = ["make", "-C", "loader", *goals, f"OUT={_loader_out()}"]
    if _runner(argv, "loader-test", test, []) != 0:
        test.failed.append("core: loader")


def _loader_out() -> Path:
    return cache_dir() / "loader-test"


def _temporary() -> Path:
    """The folder for what tests write: the usual one, unless it is too small for recordings."""
    usual = Path(tempfile.gettempdir())
    if shutil.disk_usage(usual).free >= TEMPORARY_BYTES:
        return usual
    folder = cache_dir() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pytest(
    test: TestRun, words: list[str], must_find: bool = False, all_turns: bool = False
) -> None:
    """Run pytest once. Without *must_find* a tier may have no tests in these folders. With
    *all_turns* all tests run that otherwise take turns.

    A share's tests count towards its time as far as they occupied the workers.
    """
    report = cache_dir() / "logs" / "pytest.xml"
    report.unlink(missing_ok=True)
    color = "yes" if sys.stderr.isatty() else "no"
    argv = [sys.executable, "-m", "pytest", f"--junitxml={report}", f"--color={color}"]
    argv += ["-rfEs"]  # the reason of each skip, too
    if MARKERS[test.tier]:
        argv += ["-m", MARKERS[test.tier]]
    argv += [f"--ignore={file}" for file in test.left_out]
    # Machines wait much, for each other and for the guest's clock: files of tests run beside each
    # other, each file on one worker because its tests share a machine. They begin in the order of
    # the words; by their number of tests the long ones would be last.
    argv += ["-n", str(workers()), "--dist", "loadfile", "--no-loadscope-reorder"]
    lines: list[str] = []
    # loader/host runs what _loader() built, in QEMU.
    env = {"LOADER_OUT": str(_loader_out()), "PYTEST_DEBUG_TEMPROOT": str(_temporary())}
    if all_turns:
        env[ALL_TURNS_ENV] = "1"
    elif test.tier is Tier.FULL:
        env[BEGIN_UNTIL_ENV] = str(test.began + 60 * slow_host.BEGIN_MINUTES_MAX)
    try:
        code = _runner([*argv, *words], "pytest", test, lines, env=env)
        if code != 0 and (must_find or code != NO_TESTS):
            test.failed.append(PYTEST)
    finally:  # also of a run that was too long, to say of what
        for share, tests in junit.read(report).items():
            test.add(share, tests)
        test.left_out += junit.too_late(report)
        test.longest = junit.longest_files(report, LONGEST_FILES)
        test.last_lines += [line for line in lines[-3:] if pytest_last_line(line)]


def workers() -> int:
    """Of pytest: each core of the host, as far as memory goes."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(os.cpu_count() or 1, memory_bytes // WORKER_MEMORY_BYTES))


def _file_name(share: str) -> str:
    return share.replace(" ", "-")


def pytest_last_line(line: str) -> str:
    """`N passed in ...` in a line, or an empty string."""
    match = _PYTEST_LAST.match(re.sub(r"\x1b\[[\d;]*m", "", line).strip())
    return match[1] if match else ""


def _runner(
    argv: list[str],
    log: str,
    test: TestRun,
    lines: list[str],
    env: dict[str, str] | None = None,
    print_line: Callable[[str], object] = info,
) -> int:
    """Run one runner, whose output is printed at once unless *print_line* keeps it; return its exit
    code.
    """

    def show(line: str) -> None:
        lines.append(line)
        print_line(line)

    path = cache_dir() / "logs" / f"{log}.log"
    path.unlink(missing_ok=True)
    left_s = test.left_s()
    try:
        return stream(
            argv,
            cwd=repo_dir(),
            log=path,
            on_line=show,
            env=env,
            timeout_s=left_s,
            check=False,
        )
    except HangError as error:
        raise HangError(
            f"the budget of {BUDGET_MINUTES} min is used up: {error.message}"
        ) from error

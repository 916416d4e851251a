# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem test`: every share in turn with its time, and at the end the runners' own last lines.

All runners run even if one fails. A tier that CI runs at every change has a budget; exceeding it
is a failure. lab/checks/shares.py has the tests of each share.
"""

from __future__ import annotations

import re
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

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
from lab.errors import Exit, HangError, RemError
from lab.messages import info
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup.plugin import cargo_env
from lab.setup.products import Progress, ensure_all, ensure_kernel, ensure_packages
from lab.setup.rust import ensure_rust


class Tier(StrEnum):
    """How much is run."""

    QUICK = "quick"
    FULL = "full"
    SOAK = "soak"


MARKERS = {Tier.QUICK: "not full and not soak", Tier.FULL: "not soak", Tier.SOAK: ""}

WORKERS = 2  # a guest's 512 MiB and more stand in memory for each
NO_TESTS = 5  # pytest's exit status if a tier has none in a folder
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
        self.minutes[name] = (time.monotonic() - begin) / 60

    @property
    def total_minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

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


def run_tier(tier: Tier, words: list[str]) -> TestRun:
    """Run everything of the tier. An error of set-up ends it, as nothing can run without."""
    test = TestRun(tier)
    begin = time.monotonic()
    progress = Progress()
    if tier is Tier.QUICK:
        ensure_packages(progress)
        ensure_rust(progress)
    else:
        ensure_all(progress)
        ensure_kernel(progress, "mutants")  # for tests/test_negative_proofs.py
    test.minutes["set-up"] = (time.monotonic() - begin) / 60
    repo = repo_dir()
    if words:  # certain tests only
        with test.share("pytest"):
            _pytest(test, "pytest", words, must_find=True)
        return test
    for share in SHARES:
        crates, tests = crate_folders(repo, share), pytest_words(repo, share)
        if crates or tests:
            with test.share(share.name):
                _run_share(test, repo, share, crates, tests)
    return test


def _run_share(
    test: TestRun, repo: Path, share: Share, crates: list[str], tests: list[str]
) -> None:
    if share is CORE:  # these check the whole project
        begin = time.monotonic()
        test.failed += lint(repo, info)
        test.minutes["core: linters"] = (time.monotonic() - begin) / 60
    if crates:
        _cargo(test, share.name, [crate_name(repo, folder) for folder in crates])
    if share is CORE:
        _loader(test)
    if tests:
        _pytest(test, share.name, tests)


def _cargo(test: TestRun, share: str, crates: list[str]) -> None:
    lines: list[str] = []
    argv = ["cargo", "test", "--locked", *(word for name in crates for word in ("-p", name))]
    if _runner(argv, f"cargo-{_file_name(share)}", test, lines, env=cargo_env()) != 0:
        test.failed.append(f"{share}: rust")
    test.last_lines += [line for line in lines if _CARGO_LAST.match(line)]


def _loader(test: TestRun) -> None:
    goals = ["test"] if test.tier is Tier.QUICK else ["test", "all", "tools"]
    argv = ["make", "-C", "loader", *goals, f"OUT={_loader_out()}"]
    if _runner(argv, "loader-test", test, []) != 0:
        test.failed.append("core: loader")


def _loader_out() -> Path:
    return cache_dir() / "loader-test"


def _pytest(test: TestRun, share: str, words: list[str], must_find: bool = False) -> None:
    """One run of pytest. Without *must_find* a tier may have no tests in a share's folders."""
    report = cache_dir() / "logs" / f"pytest-{_file_name(share)}.xml"
    report.unlink(missing_ok=True)
    color = "yes" if sys.stderr.isatty() else "no"
    argv = [sys.executable, "-m", "pytest", f"--junitxml={report}", f"--color={color}"]
    if MARKERS[test.tier]:
        argv += ["-m", MARKERS[test.tier]]
    if test.tier is not Tier.QUICK:
        # Machines wait much, so files of tests run in parallel, each file on one worker because its
        # tests share a machine. In the order of their names the long ones begin early; by their
        # number of tests they would be last.
        argv += ["-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"]
    lines: list[str] = []
    env = {"LOADER_OUT": str(_loader_out())}  # loader/host runs what _loader() built, in QEMU
    code = _runner([*argv, *words], f"pytest-{_file_name(share)}", test, lines, env=env)
    if code != 0 and (must_find or code != NO_TESTS):
        test.failed.append(f"{share}: pytest")
    for folder, minutes in _minutes_by_folder(report).items():
        test.minutes[f"{share}: {folder}"] = minutes
    test.last_lines += [line for line in lines[-3:] if pytest_last_line(line)]


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
) -> int:
    """Run one runner and print its output at once; return its exit code."""

    def show(line: str) -> None:
        lines.append(line)
        info(line)

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


def _minutes_by_folder(report: Path) -> dict[str, float]:
    """The time of each folder of tests, from pytest's report."""
    minutes: dict[str, float] = {}
    if not report.exists():
        return minutes
    for case in ElementTree.parse(report).iter("testcase"):
        folder = "/".join(case.get("classname", "").split(".")[:2])
        minutes[folder] = minutes.get(folder, 0.0) + float(case.get("time", "0")) / 60
    return minutes

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pytest's report: failed and skipped tests and their time, by share."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.checks.shares import Share, share_of
from lab.turns import TOO_LATE

# How the reason of a skip begins that set-up can do nothing about. Of what set-up installs and
# builds nothing may be asked first: without it a test fails.
NEEDS_ROOT = "needs root"


@dataclass
class Tests:
    """Tests of one share. An error of a fixture is a failure, too."""

    __test__ = False  # pytest: this is no test

    minutes: float = 0.0
    failed: int = 0
    skipped: int = 0
    without_root: int = 0  # of those skipped
    too_late: int = 0  # the same


def _cases(report: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """Each test with the dotted name of its class or module."""
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            # A file that could not be collected has no class, and its dotted path as name.
            yield case.get("classname") or case.get("name") or "", case


def _skipped(case: ElementTree.Element) -> str | None:
    """The reason of a skip; none if the test was not skipped."""
    skipped = case.find("skipped")
    return None if skipped is None else skipped.get("message", "")


def _minutes(case: ElementTree.Element) -> float:
    return float(case.get("time", "0")) / 60


def read(report: Path) -> dict[str, Tests]:
    """Tests by the name of their share; nothing if pytest ended before it wrote the report."""
    found: dict[str, Tests] = {}
    for name, case in _cases(report):
        share: Share = share_of(name)
        tests = found.setdefault(share.name, Tests())
        tests.minutes += _minutes(case)
        tests.failed += any(case.find(kind) is not None for kind in ("failure", "error"))
        reason = _skipped(case)
        if reason is not None:
            tests.skipped += 1
            tests.without_root += reason.startswith(NEEDS_ROOT)
            tests.too_late += TOO_LATE in reason
    return found


def too_late(report: Path) -> list[str]:
    """The files of tests that did not begin any more."""
    names = {_file(name) for name, case in _cases(report) if TOO_LATE in (_skipped(case) or "")}
    return sorted(f"{name.replace('.', '/')}.py" for name in names)


def _file(name: str) -> str:
    """The dotted name of a test's file: a class of tests is not in it."""
    return name.split(".Test")[0]


def longest_files(report: Path, count: int) -> list[tuple[str, float]]:
    """The files of tests that occupied a worker longest, with their minutes."""
    minutes: dict[str, float] = {}
    for name, case in _cases(report):
        file = _file(name)
        minutes[file] = minutes.get(file, 0.0) + _minutes(case)
    return sorted(minutes.items(), key=lambda item: -item[1])[:count]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pytest's report: failed and skipped tests and their time, by share."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from lab.checks.shares import Share, share_of


@dataclass
class Tests:
    """Tests of one share. An error of a fixture is a failure, too."""

    __test__ = False  # pytest: this is no test

    minutes: float = 0.0
    failed: int = 0
    skipped: int = 0


def read(report: Path) -> dict[str, Tests]:
    """Tests by the name of their share; nothing if pytest ended before it wrote the report."""
    found: dict[str, Tests] = {}
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):
        # A file that could not be collected has no class, and its dotted path as name.
        share: Share = share_of(case.get("classname") or case.get("name") or "")
        tests = found.setdefault(share.name, Tests())
        tests.minutes += float(case.get("time", "0")) / 60
        tests.failed += any(case.find(kind) is not None for kind in ("failure", "error"))
        tests.skipped += case.find("skipped") is not None
    return found

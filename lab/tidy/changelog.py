# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CHANGELOG.md keeps the form of Keep a Changelog."""

from __future__ import annotations

import re

from lab.tidy.finding import Finding

SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Formats")
NAME = "CHANGELOG.md"


def check_changelog(text: str) -> list[Finding]:
    """A title, [Unreleased] first, releases with version and date, known sections."""
    lines = text.splitlines()
    releases = [(n, line) for n, line in enumerate(lines, 1) if line.startswith("## ")]
    found = []
    if not lines or lines[0] != "# Changelog":
        found.append(Finding(NAME, 1, "begins with `# Changelog`"))
    if not releases or releases[0][1] != "## [Unreleased]":
        found.append(Finding(NAME, 1, "its first release is `## [Unreleased]`"))
    for number, line in releases[1:]:
        if not re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line):
            found.append(Finding(NAME, number, "want `## [1.2.3] - 2026-12-31`"))
    for number, line in enumerate(lines, 1):
        if line.startswith("### ") and line[4:] not in SECTIONS:
            found.append(Finding(NAME, number, f"section not of {', '.join(SECTIONS)}"))
    return found

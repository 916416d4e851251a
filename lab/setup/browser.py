# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A browser for tests of pages: Debian's chromium."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.run import find_tool
from lab.setup.need import Part, Site
from lab.setup.packages import Group

PROGRAM = "chromium"


@dataclass(frozen=True)
class Browser(Part[Path]):
    """The program."""

    groups = (Group.BROWSER,)

    def make(self, site: Site) -> Path:
        found = find_tool(PROGRAM)
        if found is None:
            raise InfraError(f"the package {PROGRAM} is installed but has no program {PROGRAM}")
        return found

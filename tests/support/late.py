# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files of tests that would begin too late to end within the budget."""

from __future__ import annotations

from pathlib import Path

from lab.paths import repo_dir
from lab.turns import is_too_late


class Begun:
    """Of each file, whether it has begun. Its first test decides for all."""

    def __init__(self) -> None:
        self._may: dict[Path, bool] = {}

    def may_run(self, path: Path) -> bool:
        """Whether a test of this file may run."""
        if not path.is_relative_to(repo_dir()):
            return True  # what a test makes for pytest itself
        if path not in self._may:
            self._may[path] = not is_too_late(path.relative_to(repo_dir()))
        return self._may[path]

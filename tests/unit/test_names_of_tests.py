# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No two files of tests have one name: pytest takes a name without its folder for the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from lab.paths import repo_dir


def shared(files: Iterable[Path]) -> list[str]:
    counts = Counter(path.name for path in files)
    return sorted(name for name, count in counts.items() if count > 1)


def test_each_file_of_tests_has_a_name_of_its_own() -> None:
    files = list((repo_dir() / "tests").rglob("test_*.py"))
    assert len(files) > 150
    assert shared(files) == []


def test_a_shared_name_is_found() -> None:
    assert shared([Path("a/test_x.py"), Path("b/test_x.py"), Path("b/test_y.py")]) == ["test_x.py"]

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Raw results that are kept: what is there is not measured again, and none is there half."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.experiment.kept import kept


def test_only_what_is_missing_is_measured(tmp_path: Path) -> None:
    asked = []

    def measure(missing: list[str]) -> Iterator[tuple[str, list[int]]]:
        asked.append(missing)
        yield from ((name, [len(asked)]) for name in missing if name != "lost")

    files = {name: tmp_path / "raw" / f"{name}.json" for name in ("a", "b", "lost")}
    assert kept({"a": files["a"]}, measure) == {"a": [1]}
    assert kept(files, measure) == {"a": [1], "b": [2]}
    assert kept({"a": files["a"]}, measure) == {"a": [1]}
    assert asked == [["a"], ["b", "lost"]]


def test_results_of_before_a_failure_are_kept(tmp_path: Path) -> None:
    def measure(missing: list[str]) -> Iterator[tuple[str, int]]:
        yield missing[0], 1
        raise RuntimeError("the second machine did not boot")

    files = {name: tmp_path / f"{name}.json" for name in ("a", "b")}
    with pytest.raises(RuntimeError):
        kept(files, measure)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json"]

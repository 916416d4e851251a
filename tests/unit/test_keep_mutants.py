# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Planted bugs of the module of kept programs apply, and each has a test that finds it."""

from __future__ import annotations

from lab.paths import repo_dir
from lab.setup.keep import series
from lab.setup.patch_series import check_series

REPO = repo_dir()


def test_each_patch_applies_alone_and_in_the_series() -> None:
    assert check_series(REPO, series()) == []


def test_each_bug_is_planted_by_a_test() -> None:
    tests = (REPO / "tests" / "keep" / "test_keep_caches.py").read_text("utf-8")
    names = [patch.name for patch in series().mutants]
    assert names
    assert [name for name in names if f'plant("{name}")' not in tests] == []


def test_sources_have_no_planted_bug() -> None:
    for path in (REPO / "keep" / "kernel").glob("*.[ch]"):
        assert "mutant" not in path.read_text("utf-8")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the kernel is built: the compiler's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.setup import kernel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(kernel, "need_disk", lambda *_: None)
    monkeypatch.setattr(kernel, "RESULTS", {})
    (tmp_path / "build").mkdir()
    return tmp_path


def build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether objects are compiled without a second preprocessing."""
    seen = []

    def configure(*_: object) -> None:
        (cache / "ccache").mkdir(exist_ok=True)
        (cache / "ccache" / "question").touch()  # Kconfig asks the compiler through the cache

    monkeypatch.setattr(kernel, "_configure", configure)
    monkeypatch.setattr(
        kernel, "_compile", lambda *_: seen.append("CCACHE_DEPEND" in kernel.make_env())
    )
    recipe = kernel.Recipe("key", lambda _base, _into: None, "", "")
    for folder in (kernel.base_dir("6"), kernel.tree_dir("6", recipe)):
        folder.mkdir(exist_ok=True)
    kernel.build("6", recipe, cache)
    return seen == [True]


def test_first_build_preprocesses_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(cache, monkeypatch)


def test_first_build_that_was_interrupted_is_still_the_first(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(cache, monkeypatch)
    assert build(cache, monkeypatch), "no compile has ended"


def test_filled_cache_is_searched(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "ccache").mkdir()
    (cache / "ccache" / "object").touch()
    assert not build(cache, monkeypatch)

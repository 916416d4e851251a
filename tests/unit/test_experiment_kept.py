# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Raw results that are kept: what is there is not measured again, none is there half, and none is
taken that other code has measured."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.experiment import faults, kept, object_modes, programs, stops, ways, xeon
from lab.testbed import memory_machine, region

A = '''"""What measures."""
def measure(missing):
    from lab.b import value
    return [(name, value()) for name in missing]
'''
B = "from lab.setup.c import C\n\n\ndef value():\n    return 1\n"
C = "C = 1\n"


def test_only_what_is_missing_is_measured(tmp_path: Path) -> None:
    asked = []

    def measure(missing: list[str]) -> Iterator[tuple[str, list[int]]]:
        asked.append(missing)
        yield from ((name, [len(asked)]) for name in missing if name != "lost")

    files = {name: tmp_path / "raw" / f"{name}.json" for name in ("a", "b", "lost")}
    assert kept.kept({"a": files["a"]}, measure) == {"a": [1]}
    assert kept.kept(files, measure) == {"a": [1], "b": [2]}
    assert kept.kept({"a": files["a"]}, measure) == {"a": [1]}
    assert asked == [["a"], ["b", "lost"]]


def test_results_of_before_a_failure_are_kept(tmp_path: Path) -> None:
    def measure(missing: list[str]) -> Iterator[tuple[str, int]]:
        yield missing[0], 1
        raise RuntimeError("the second machine did not boot")

    files = {name: tmp_path / f"{name}.json" for name in ("a", "b")}
    with pytest.raises(RuntimeError):
        kept.kept(files, measure)
    assert [path.name[:2] for path in tmp_path.iterdir()] == ["a-"]


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A lab of three modules; change() writes them and returns the key."""
    texts = {"a.py": A, "b.py": B, "setup/c.py": C}
    parts = tmp_path / "models"
    parts.mkdir()
    monkeypatch.setattr(kept, "repo_dir", lambda: tmp_path)
    monkeypatch.setattr(kept, "PARTS_DIR", parts)
    (tmp_path / "lab" / "setup").mkdir(parents=True)

    def key(name: str = "a.py", old: str = "", new: str = "") -> str:
        for each, text in texts.items():
            (tmp_path / "lab" / each).write_text(text.replace(old, new) if each == name else text)
        return kept.code_key(load(tmp_path / "lab" / "a.py").measure)

    yield key


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("a", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_key_is_of_what_a_module_does_and_imports(change: Callable[..., str]) -> None:
    key = change()
    assert change("a.py", "missing]", "missing if name]") != key
    assert change("b.py", "return 1", "return 2") != key, "imported in a function"
    assert change() == key


def test_comments_and_set_up_are_not_in_the_key(change: Callable[..., str]) -> None:
    """What set-up makes has keys of its own."""
    key = change()
    assert change("a.py", "What measures", "Measures") == key
    assert change("b.py", "return 1", "return 1  # one") == key
    assert change("setup/c.py", "C = 1", "C = 2") == key


def test_parts_are_in_the_key(change: Callable[..., str], tmp_path: Path) -> None:
    key = change()
    (tmp_path / "models" / "core.toml").write_text("active_mw = 1\n")
    assert change() != key


def test_rows_of_other_code_are_measured_again(tmp_path: Path) -> None:
    """Negative proof: with the same code they are not."""
    measured: list[str] = []

    def measure(missing: list[str]) -> Iterator[tuple[str, int]]:
        measured.extend(missing)
        yield from ((name, len(measured)) for name in missing)

    files = {"x": tmp_path / "x.json"}
    assert kept.kept(files, measure) == {"x": 1} == kept.kept(files, measure)
    assert kept.kept(files, measure, textwrap.fill) == {"x": 2}
    assert measured == ["x", "x"]


@pytest.mark.parametrize("module", [faults, object_modes, programs, stops, ways, xeon])
def test_all_that_keep_rows_follow_the_machine(module: Any) -> None:
    """A changed machine has no row of another."""
    followed = kept.followed([Path(str(module.__file__))])
    assert Path(str(module.__file__)).with_name("kept.py") in followed
    assert any(path.name == "machine.py" for path in followed)


@pytest.mark.parametrize("module", [object_modes, programs])
def test_programs_follow_how_they_are_timed(module: Any) -> None:
    followed = kept.followed([Path(str(module.__file__))])
    assert {Path(str(it.__file__)) for it in (region, memory_machine)} <= followed

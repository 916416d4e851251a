# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: counters are read right before a program's region and right after it, and one that fails
or says something else is noticed.

Method: `region` of guest/works runs on this host, where a shell stands for the guest. What is
counted are bytes of a file that the program makes longer.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import InfraError
from lab.paths import repo_dir
from lab.run import run
from lab.testbed import region
from lab.testbed.region import run_region, talking

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("works")
    run(["make", "-s", "-C", repo_dir() / "guest" / "works", f"OUT={out}", f"{out}/region"],
        what="compiling region")  # fmt: skip
    return out


@pytest.fixture
def machine(works: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(region, "WORKS_FOLDER", str(works))
    monkeypatch.setattr(region, "OUTPUT", str(tmp_path / "output"))
    return SimpleNamespace(
        run_in_guest=lambda words: None,
        guest=SimpleNamespace(command_line=lambda words: ["sh", "-c", words]),
        files=SimpleNamespace(directory=tmp_path),
    )


def test_region_has_what_its_program_does_and_no_more(machine: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before")
    done = run_region(
        machine, f"printf 12345 >>{file}; echo said; exit 3", lambda: {"b": file.stat().st_size},
        LIMIT_S,
    )  # fmt: skip
    assert (done.counted, done.said, done.code) == ({"b": 5}, "said\n", 3)
    assert done.ns > 0 and done.peak_kib > 0


def test_program_that_is_no_region_is_refused(machine: Any, works: Path) -> None:
    (works / "region").rename(works / "kept")
    try:
        with pytest.raises(InfraError, match="no region"):
            run_region(machine, "true", dict, LIMIT_S)
    finally:
        (works / "kept").rename(works / "region")


def test_talk_counts_each_answer_and_has_the_rest_at_the_end(machine: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    words = f'while read -r line; do printf %s "$line" >>{file}; echo "$line"; done; echo rest'
    with talking(machine, ["sh", "-c", words], LIMIT_S) as talk:
        assert talk.ask("one") == "one"
        assert talk.counted("four", lambda: {"b": file.stat().st_size}) == ("four", {"b": 4})
        assert talk.rest() == ("rest\n", 0)


def test_talk_ends_after_its_limit(machine: Any) -> None:
    with talking(machine, ["sleep", "60"], 0.2) as talk:
        assert talk.hear() == ""
    assert talk.child.returncode != 0

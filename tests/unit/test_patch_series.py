# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A series of patches: heads are read, copies are patched, and the check finds bad patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import RemError
from lab.paths import repo_dir
from lab.setup.inputs import Inputs
from lab.setup.patch_series import (
    Patch,
    Series,
    Violation,
    add_series,
    check_series,
    copy_sources,
    patched_copy,
    read_series,
)

SOURCE = "".join(f"line {number};\n" for number in range(1, 10))
SWITCH = """\
Subject: [PATCH] the switch

--- /dev/null
+++ b/room/switch.h
@@ -0,0 +1 @@
+int chosen(const char *name);
"""


def mutant(name: str, line: int, context: str = "line {}", violates: str = "first: broken") -> str:
    """A patch that adds one line below a line of SOURCE, with one line of context on each side."""
    head = f"Subject: [PATCH] {name}\nViolates: {violates}\n"
    hunk = f' {context.format(line)};\n+chosen("{name}");\n {context.format(line + 1)};\n'
    place = f"--- a/room/code.c\n+++ b/room/code.c\n@@ -{line},2 +{line},3 @@\n"
    return f"{head}\nText.\n---\n{place}{hunk}"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "room" / "mutants").mkdir(parents=True)
    (tmp_path / "room" / "code.c").write_text(SOURCE)
    (tmp_path / "room" / "mutants" / "switch.patch").write_text(SWITCH)
    write(tmp_path, "one", mutant("one", 2))
    write(tmp_path, "two", mutant("two", 3))
    return tmp_path


def write(repo: Path, name: str, text: str) -> None:
    (repo / "room" / "mutants" / f"{name}.patch").write_text(text)


def series(repo: Path) -> Series:
    return read_series(repo / "room" / "mutants")


def test_switch_comes_first_and_is_no_mutant(repo: Path) -> None:
    read = series(repo)
    assert [patch.name for patch in read.patches] == ["switch", "one", "two"]
    assert read.names == ("one", "two")
    assert read["two"].files == {"room/code.c"}
    with pytest.raises(RemError, match=r"no three\.patch; there are one, two"):
        read["three"]


def test_head_says_what_a_mutant_violates(repo: Path) -> None:
    patch = series(repo)["one"]
    assert patch.violates == (Violation("first", "broken"),)
    assert patch.verdicts == {"broken"}
    assert patch.one("Subject") == "[PATCH] one"
    assert patch.one("Planted", "at-boot") == "at-boot"
    several = Patch(Path("x.patch"), "Violates: a: b\nViolates: a: c\n\n")
    assert several.verdicts == {"b", "c"}
    with pytest.raises(RemError, match="2 lines `Violates:`"):
        several.one("Violates")


@pytest.mark.parametrize("value", ["broken", "a b: c", "A: b", "a: b: c"])
def test_malformed_violation_is_refused(value: str) -> None:
    patch = Patch(Path("x.patch"), f"Violates: {value}\n\n")
    with pytest.raises(RemError, match="want `Violates: PROMISE: VERDICT`"):
        _ = patch.violates


def test_line_that_is_no_head_is_refused() -> None:
    with pytest.raises(RemError, match="not a line of a head"):
        _ = Patch(Path("x.patch"), "Subject: x\nfree text\n\n").head


def test_good_series_has_no_findings(repo: Path) -> None:
    assert check_series(repo, series(repo)) == []


def test_copy_is_patched_and_the_checkout_is_not(repo: Path, tmp_path: Path) -> None:
    read = series(repo)
    copy = tmp_path / "copy"
    copy.mkdir()
    patched_copy(repo, ["room"], read.patches, copy)
    text = (copy / "room" / "code.c").read_text()
    assert text.splitlines()[1:5] == ["line 2;", 'chosen("one");', "line 3;", 'chosen("two");']
    assert (copy / "room" / "switch.h").exists()
    assert (repo / "room" / "code.c").read_text() == SOURCE


def test_product_depends_on_what_patches_do_and_not_on_their_heads(repo: Path) -> None:
    def key() -> str:
        inputs = Inputs("product")
        add_series(inputs, series(repo))
        return inputs.key()

    before = key()
    write(repo, "two", mutant("two", 3, violates="second: broken"))
    assert key() == before
    write(repo, "two", mutant("two", 4))
    assert key() != before


def test_copy_has_no_build_output(repo: Path, tmp_path: Path) -> None:
    (repo / "room" / "code.o").write_text("object")
    copy_sources(repo, ["room"], tmp_path / "copy")
    assert (tmp_path / "copy" / "room" / "code.c").exists()
    assert not (tmp_path / "copy" / "room" / "code.o").exists()


def test_patch_of_another_source_is_found(repo: Path) -> None:
    write(repo, "bad", mutant("bad", 5, context="other {}"))
    found = check_series(repo, series(repo))
    assert any("bad.patch does not apply" in line for line in found)


def test_patches_of_one_place_are_found(repo: Path) -> None:
    """Each applies alone; the second one's context is gone once the first one is there."""
    write(repo, "same", mutant("same", 2))
    found = check_series(repo, series(repo))
    assert found
    assert all(line.startswith("in the series: ") for line in found)


def test_patch_that_lands_elsewhere_is_found(repo: Path) -> None:
    """Two equal places: which one a patch finds depends on what was applied before it."""
    (repo / "room" / "code.c").write_text("a;\nb;\na;\nb;\n")
    for name in ("one", "two"):
        text = mutant(name, 1).replace(" line 1;", " a;").replace(" line 2;", " b;")
        write(repo, name, text)
    found = check_series(repo, series(repo))
    assert any("room/code.c depends on the order" in line for line in found)


def test_mutant_without_verdict_or_name_is_found(repo: Path) -> None:
    text = mutant("one", 5).replace("Violates: first: broken\n", "")
    write(repo, "nameless", text)
    found = check_series(repo, series(repo))
    assert any("no line `Violates: PROMISE: VERDICT`" in line for line in found)
    assert any('no line that it adds asks for "nameless"' in line for line in found)


@pytest.mark.parametrize(
    ("folder", "least"),
    [
        ("heap/mutants", 30),
        ("machine/crash-states/mutants", 10),
        ("models/memory/mutants", 15),
        ("off2f/mutants", 3),
        ("pm/mutants", 40),
    ],
)
def test_planted_bugs_of_the_repository_apply(folder: str, least: int) -> None:
    found = read_series(repo_dir() / folder)
    assert len(found.mutants) >= least
    assert check_series(repo_dir(), found) == []

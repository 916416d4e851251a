# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The documents are true as far as a program can check.

Goal: no reason, parameter or sysfs file without a line on the manual page; no test, path or link in
a document that does not exist. Method: names are read from the sources that define them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab import format as fmt
from lab.machine.status import GUEST_FILES
from lab.paths import repo_dir
from lab.tidy.files import project_files

REPO = repo_dir()
README = (REPO / "README.md").read_text("utf-8")
PAGE = (REPO / "man" / "remanence.7").read_text(encoding="utf-8").replace("\\-", "-")
FILES = [path.relative_to(REPO) for path in project_files(REPO)]
DOCUMENTS = [str(path) for path in FILES if path.suffix == ".md"]
TOP = {path.parts[0] for path in FILES if len(path.parts) > 1}


def stop_sources() -> str:
    sources = sorted((REPO / "kernel" / "stop").glob("*.c"))
    return "".join(path.read_text(encoding="utf-8") for path in sources)


REASON_CASES = r"\{ (REM_(?:BOOT|COLD)_\w+), \"([\w-]+)\" \}"
REASONS = dict(re.findall(REASON_CASES, (REPO / "format" / "rem_reason_name.h").read_text()))
ATTRIBUTES = re.findall(r"&(\w+)_attr\.attr", (REPO / "kernel" / "stop" / "sysfs.c").read_text())
PARAMETERS = re.findall(r"module_param(?:_cb|_named|_string)\((\w+),", stop_sources())


def headings() -> list[str]:
    """The line after each .TP: what the paragraph is about."""
    return re.findall(r"^\.TP\n(.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("reason", list(fmt.VIEWS.rem_boot_reason.__members__))
def test_every_reason_is_on_the_manual_page(reason: str) -> None:
    number = int(fmt.VIEWS.rem_boot_reason[reason])
    assert f'.BR {REASONS[reason]} " ({number})"' in headings()


@pytest.mark.parametrize("reason", list(fmt.VIEWS.rem_boot_reason.__members__))
def test_reason_has_the_name_of_its_number(reason: str) -> None:
    """So `rem`, which derives names from the enum, prints the same word as kernel and loader."""
    bare = reason.removeprefix("REM_BOOT_").removeprefix("REM_COLD_")
    assert REASONS[reason] == bare.lower().replace("_", "-")


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_sysfs_file_is_on_the_manual_page(name: str) -> None:
    assert f".I {name}" in headings()


def test_every_sysfs_file_that_can_be_read_is_in_rem_status() -> None:
    assert set(GUEST_FILES) == set(ATTRIBUTES) - {"stop"}  # which can only be written


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_kernel_parameter_is_on_the_manual_page(name: str) -> None:
    assert any(re.match(rf"\.BI? ?R? ?remanence\.{name}=", line) for line in headings())


def test_sources_were_understood() -> None:
    """Otherwise the tests above could pass because they have nothing to check."""
    assert len(REASONS) == len(fmt.VIEWS.rem_boot_reason.__members__)
    assert {"status", "last_boot", "stop"} <= set(ATTRIBUTES)
    assert {"stop", "hold_up_us"} <= set(PARAMETERS)


def functions(text: str) -> set[str]:
    """Names of functions that are defined in a text of Python, Rust or C in kernel style."""
    python_and_rust = re.findall(r"^\s*(?:pub(?:\(crate\))? )?(?:def|fn) (\w+)", text, re.MULTILINE)
    return {*python_and_rust, *re.findall(r"^[A-Za-z_][\w \t*]*?\b(\w+)\(", text, re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_function_that_a_document_names_is_there(document: str) -> None:
    for file, name in re.findall(r"`([\w./-]+)::(\w+)`", (REPO / document).read_text("utf-8")):
        assert (REPO / file).is_file(), f"{document}: no {file}"
        assert name in functions((REPO / file).read_text("utf-8")), f"{document}: no {file}::{name}"


def places(text: str) -> set[str]:
    """Words in backquotes that begin with a folder of this repository."""
    words = re.findall(r"`([\w./-]+)`", text)
    return {word for word in words if "/" in word and word.split("/")[0] in TOP}


LINUX_FILES = {
    name
    for patch in (REPO / "kernel" / "patches").glob("*.patch")
    for name in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text("utf-8"), re.MULTILINE)
} | {"kernel/remanence", "kernel/remanence/"}


def exists(word: str, document: Path) -> bool:
    """From the repository's root or from the document's folder; folders of files count, and so do
    files of Linux that a patch changes or adds.
    """
    return word in LINUX_FILES or any(
        (base / word).exists() for base in (REPO, REPO / document.parent)
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_is_there(document: str) -> None:
    text = (REPO / document).read_text("utf-8")
    missing = [word for word in sorted(places(text)) if not exists(word, Path(document))]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    text = (REPO / document).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (REPO / document).parent.joinpath(target).exists(), target


def test_every_kernel_patch_is_explained() -> None:
    text = (REPO / "kernel" / "README.md").read_text("utf-8")
    explained: set[int] = set()
    for first, last in re.findall(r"^\| (\d{4})(?: to (\d{4}))? \|", text, re.MULTILINE):
        explained |= set(range(int(first), int(last or first) + 1))
    assert {
        int(patch.name[:4]) for patch in (REPO / "kernel" / "patches").glob("*.patch")
    } == explained


# What a newcomer looks for: the row of README's table, and what the function there must do.
POINTERS = {
    "the flush before the commit": r"(?s)rem_caches_write_back\(\).*rem_record_commit\(",
    "the check against entering twice": r"<= consumed\)\s*return REM_COLD_ALREADY_CONSUMED",
    "rings of virtio devices, re-seated": r"last_used_idx",
    "a supply's profile": r"(?m)^\[supply\.",
    "a heap's commit": r"self\.write\(",
}


def body_of(file: str, function: str | None) -> str:
    """The text of a C or Rust function up to the next closing brace of its column, or the file."""
    text = (REPO / file).read_text("utf-8")
    if function is None:
        return text
    match = re.search(rf"(?ms)^( *)(?:\w[\w \t*]*)?\b{function}\(.*?^\1\}}", text)
    assert match is not None, f"{file} has no {function}"
    return match[0]


def test_readme_points_at_what_newcomers_look_for() -> None:
    rows = re.findall(r"^\| (.*?) \| `([\w./-]+?)(?:::(\w+))?` \|$", README, re.MULTILINE)
    found = {question: (file, function or None) for question, file, function in rows}
    assert set(found) == set(POINTERS)
    for question, (file, function) in found.items():
        assert re.search(POINTERS[question], body_of(file, function)), (question, file)


def test_readme_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= 80

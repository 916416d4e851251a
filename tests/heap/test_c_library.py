# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The C library: a C program uses it, and its manual has each function."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.setup.heap import HeapLibrary, HeapProgram
from lab.setup.products import need

C = repo_dir() / "heap" / "c"


def test_manual_names_every_function_of_the_header() -> None:
    header = (C / "include" / "nvheap.h").read_text(encoding="utf-8")
    page = (repo_dir() / "heap" / "man" / "nvheap.3").read_text(encoding="utf-8")
    functions = set(re.findall(r"\b(nvheap_[a-z_]+)\(", header))
    assert len(functions) > 10
    assert {name for name in functions if name not in page} == set()


def test_header_declares_the_exported_functions() -> None:
    header = (C / "include" / "nvheap.h").read_text(encoding="utf-8")
    source = (C / "src" / "lib.rs").read_text(encoding="utf-8")
    exported = set(re.findall(r'extern "C" fn (nvheap_\w+)', source))
    assert {name for name in exported if f"{name}(" not in header} == set()


def test_each_function_has_a_page_that_declares_it_as_the_header_does() -> None:
    header = (C / "include" / "nvheap.h").read_text(encoding="utf-8")
    bare = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = re.findall(r"^(?:int|const char \*)\s*nvheap_\w+\([^;]*\);", bare, re.MULTILINE)
    declared += re.findall(r"^const char \*nvheap_\w+\([^;]*\);", bare, re.MULTILINE)
    assert len(set(declared)) > 10
    for text in declared:
        name = re.findall(r"nvheap_\w+(?=\()", text)[0]
        page = (repo_dir() / "heap" / "man" / f"{name}.3").read_text(encoding="utf-8")
        assert f'.BI "{" ".join(text.split())}"' in page, name


@pytest.mark.full
def test_c_program_commits_aborts_and_finds_dangling_objects(tmp_path: Path) -> None:
    program = tmp_path / "program"
    run([*compiler(program), str(C / "test.c"), *libraries()])
    run([str(program), str(tmp_path / "region")])


@pytest.mark.full
def test_directory_in_a_heap_works_as_one_in_memory(tmp_path: Path) -> None:
    """What slapd's back end builds on, without slapd."""
    program, ldap = tmp_path / "program", repo_dir() / "heap" / "ldap"
    sources = [str(ldap / name) for name in ("test.c", "in_heap.c", "in_memory.c")]
    run([*compiler(program), *sources, *libraries()])
    run([str(program), str(tmp_path / "region"), str(tmp_path / "plain")])


@pytest.mark.full
def test_c_program_finds_its_plain_memory_again(tmp_path: Path) -> None:
    program = tmp_path / "program"
    run([*compiler(program), str(C / "test_fof.c"), *libraries()])
    run([str(program), str(tmp_path / "region")])


def compiler(program: Path) -> list[str]:
    """Return the compiler's command, with sanitizers: any finding ends the program."""
    sanitizers = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    return [
        "gcc",
        "-Wall",
        "-Wextra",
        "-Werror",
        *sanitizers,
        f"-I{C / 'include'}",
        "-o",
        str(program),
    ]


def libraries() -> list[str]:
    return [str(need(HeapLibrary())), "-lpthread", "-ldl", "-lm"]


def symbols_of_tests(binary: Path) -> set[str]:
    """Symbols of crash tests and of planted bugs in a library or program."""
    symbols = run(["nm", str(binary)]).stdout
    return set(
        re.findall(r"nvheap7testing|remanence_crash_states|remanence_planted|mutant", symbols)
    )


@pytest.mark.full
def test_library_holds_neither_crash_tests_nor_planted_bugs() -> None:
    assert symbols_of_tests(need(HeapLibrary())) == set()
    # The benchmark tests itself before it measures: the pattern does find them there.
    bench = need(HeapProgram())
    assert symbols_of_tests(bench) == {"nvheap7testing", "remanence_crash_states"}

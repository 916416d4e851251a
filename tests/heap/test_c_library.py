# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The C library: a C program uses it, and its manual has a word on each function."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.setup.plugin import cargo_env

C = repo_dir() / "heap" / "c"


def test_the_manual_names_every_function_of_the_header() -> None:
    header = (C / "include" / "nvheap.h").read_text(encoding="utf-8")
    page = (repo_dir() / "heap" / "man" / "nvheap.3").read_text(encoding="utf-8")
    functions = set(re.findall(r"\b(nvheap_[a-z_]+)\(", header))
    assert len(functions) > 10
    assert {name for name in functions if name not in page} == set()


def test_the_header_declares_what_the_library_exports() -> None:
    header = (C / "include" / "nvheap.h").read_text(encoding="utf-8")
    source = (C / "src" / "lib.rs").read_text(encoding="utf-8")
    exported = set(re.findall(r'extern "C" fn (nvheap_\w+)', source))
    assert {name for name in exported if f"{name}(" not in header} == set()


@pytest.mark.full
def test_a_c_program_commits_aborts_and_finds_what_dangles(tmp_path: Path) -> None:
    build = ["cargo", "build", "--release", "--locked", "-p", "nvheap-c"]
    run(build, cwd=repo_dir(), env=cargo_env())
    library = Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / "libnvheap.a"
    program = tmp_path / "program"
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{C / 'include'}", "-o", str(program)]
    libraries = [str(library), "-lpthread", "-ldl", "-lm"]
    run(["gcc", *flags, str(C / "test.c"), *libraries])
    run([str(program), str(tmp_path / "region")])

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The census of programs: what it counts is what the files have.

Goal: each kind of bytes is counted where it is, and a change of the files or of a package is seen.
Method: the paper's programs of NOPs, whose sizes are known; the Python that runs this.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import InfraError
from lab.experiment import census
from lab.paths import repo_dir

KIB = 32


@pytest.fixture
def nops(tmp_path: Path) -> Path:
    path = tmp_path / "nops"
    generator = repo_dir() / "off2f" / "guest" / "off2f-nops.py"
    subprocess.run([sys.executable, generator, str(KIB << 10), path], check=True)
    return path


def test_text_and_data_are_those_of_the_papers_program(nops: Path) -> None:
    found = census.program("nops", nops.read_bytes())
    assert (found.text_bytes, found.data_bytes, found.zeroed_bytes) == (KIB << 10, 400, 0)
    assert found.file_bytes == nops.stat().st_size
    assert found.loaded_bytes >= found.text_bytes + found.data_bytes
    assert found.relocated_bytes == 0


def test_segment_that_is_not_writable_is_no_data(nops: Path) -> None:
    elf = bytearray(nops.read_bytes())
    before = census.program("nops", bytes(elf))
    (at,) = (
        64 + number * census.PHDR_BYTES
        for number, one in enumerate(census.segments(bytes(elf)))
        if one.kind == census.LOAD and one.flags & census.WRITABLE
    )
    elf[at + 4] &= ~census.WRITABLE
    after = census.program("nops", bytes(elf))
    assert after.data_bytes == 0
    assert after.read_only_bytes == before.read_only_bytes + before.data_bytes


def test_sections_are_found_by_their_whole_name() -> None:
    elf = Path(sys.executable).read_bytes()
    assert census.section_bytes(elf, b".text") > 0
    assert census.section_bytes(elf, b".tex") == 0
    assert census.program("python", elf).relocated_bytes == census.section_bytes(
        elf, census.RELOCATED
    )


def test_file_with_two_names_is_one_program_and_a_script_is_none(nops: Path) -> None:
    (nops.parent / "again").hardlink_to(nops)
    (nops.parent / "link").symlink_to(nops)
    (nops.parent / "script").write_text("#!/bin/sh\n")
    assert [one.name for one in census.programs(nops.parent)] == ["again"]


@pytest.mark.parametrize(("data", "whole", "is_much"), [(9, 100, False), (10, 100, True)])
def test_tenth_of_data_is_much(data: int, whole: int, is_much: bool) -> None:
    assert census.is_much(data, whole) == is_much


def test_range_counts_each_page_it_is_in() -> None:
    page = census.PAGE_BYTES
    assert census.pages_bytes(0, page) == page
    assert census.pages_bytes(page - 1, page + 1) == 2 * page
    assert census.pages_bytes(page, 2 * page + 1) == 2 * page


STATUS = """Package: kept
Status: install ok installed
Version: 1-2

Package: gone
Status: deinstall ok config-files
Version: 3
"""


def test_packages_are_the_installed_ones(tmp_path: Path) -> None:
    path = tmp_path / "var" / "lib" / "dpkg" / "status"
    path.parent.mkdir(parents=True)
    path.write_text(STATUS)
    found = census.packages(tmp_path)
    assert found == {"kept": "1-2"}
    assert census.digest_of(found.items()) != census.digest_of([("kept", "1-3")])
    path.write_text("")
    with pytest.raises(InfraError):
        census.packages(tmp_path)

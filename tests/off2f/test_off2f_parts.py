# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench off2f`: how counts become times and ratios, and that a missed requirement is reported.

And the paper's programs have as many NOPs as it states (experiment off-t2).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import cli
from lab.bench import off2f
from lab.errors import Exit
from lab.result import Result


def sample(cpu_ns: int, reads: int = 0, pages: int = 0) -> dict[str, int]:
    return {
        "cpu_ns": cpu_ns,
        "disk_reads": reads,
        "disk_bytes": reads * 4096,
        "minor_faults": 10,
        "major_faults": 0,
        "text_dram_pages": pages,
    }


def rows(off2f_warm: int = 100_000, pages: int = 0) -> dict[str, dict[str, int]]:
    return {
        "elf_disk": sample(200_000, reads=3, pages=9),
        "elf_cache": sample(100_000, pages=9),
        "dax_cold": sample(150_000),
        "dax_warm": sample(150_000),
        "off2f_cold": sample(120_000),
        "off2f_warm": sample(off2f_warm, pages=pages),
        "off2f_dax_cold": sample(110_000),
        "off2f_bound_cold": sample(115_000),
    }


def result_of(found: dict[str, dict[str, dict[str, int]]], convert: float = 1.3) -> Result:
    result = Result("bench-off2f")
    off2f.ratios(found, result)
    off2f.counts(found, result)
    result.add("convert_vs_hash_and_copy", convert, "x", "native")
    return result


def test_read_costs_the_assumed_disk_time() -> None:
    assert off2f.modelled_ns(sample(1000)) == 1000
    assert off2f.modelled_ns(sample(1000, reads=2)) == 1000 + 2 * off2f.READ_NS + round(8192 / 3)


def test_worst_size_is_reported() -> None:
    result = result_of({"32k": rows(), "64k": rows(off2f_warm=101_000)})
    assert result.figures["warm_vs_elf_cache"].value == 1.01
    assert result.figures["warm_vs_elf_cache_32k"].value == 1.0
    assert off2f.required(result) == []


def test_missed_requirements_are_reported() -> None:
    missed = off2f.required(result_of({"32k": rows(off2f_warm=110_000, pages=2)}))
    assert [line.split()[0] for line in missed] == ["warm_vs_elf_cache", "text_dram_pages"]


def test_reads_of_a_bound_program_are_a_missed_requirement() -> None:
    found = rows() | {"off2f_bound_cold": sample(115_000, reads=1)}
    missed = off2f.required(result_of({"32k": found}))
    assert [line.split()[0] for line in missed] == ["cold_vs_ext4_dax"]


def test_conversion_that_does_more_than_it_must_is_a_missed_requirement() -> None:
    missed = off2f.required(result_of({"32k": rows()}, convert=1.6))
    assert [line.split()[0] for line in missed] == ["convert_vs_hash_and_copy"]


@pytest.mark.full
def test_programs_are_those_of_the_paper(tmp_path: Path) -> None:
    assert cli.main(["experiment", "off-t2", "--out", str(tmp_path)]) == Exit.PASS
    assert (tmp_path / "figure.svg").exists()

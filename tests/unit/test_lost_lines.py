# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a cut lost, from files alone: every line that differs is counted once, and malformed files
are an error of one line. Owners are tested on a machine (tests/hardware/test_caches.py).
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import drgn
import pytest

from lab import format as fmt
from lab.errors import InfraError, RemError
from lab.lost_lines.kernel import KERNEL_MAP, Symbols
from lab.lost_lines.memory import CHUNK_BYTES, LINE_BYTES, View, lost_lines
from lab.lost_lines.pages import part_of_block
from lab.lost_lines.processes import Mapping, Process
from lab.lost_lines.report import UNSEEN, Source, loss_of, write_csv
from lab.lost_lines.stopped import RSP_OFFSET
from lab.lost_lines.writers import PROGRAM, place_of
from lab.machine.qemu import NVRAM_PHYS
from lab.paths import repo_dir

BYTES = 3 * CHUNK_BYTES
TEXT = KERNEL_MAP + 0x1000000
SYSTEM_MAP = f"""{0:016x} D __per_cpu_start
{0x1000:016x} D runqueues
{0x3000:016x} D __per_cpu_end
{TEXT:016x} T _text
{TEXT:016x} T startup_64
{TEXT + 0x200:016x} t do_store
{TEXT + 0x1000:016x} D linux_banner
{TEXT + 0x1FC0:016x} D _sdata
{TEXT + 0x2000:016x} D init_top_pgt
{TEXT + 0x8000:016x} B _end
"""


@pytest.fixture
def files(tmp_path: Path) -> Source:
    """Two equal files with holes, a table of writers, and a map."""
    source = Source(
        tmp_path / "seen", tmp_path / "media", tmp_path / "writers",
        lambda: (tmp_path / "System.map", tmp_path / "layout.o"),
    )  # fmt: skip
    for path in (source.seen, source.media):
        with path.open("wb") as file:
            file.seek(CHUNK_BYTES + 4096)
            file.write(bytes(range(256)) * 16)
            file.truncate(BYTES)
    assert source.writers is not None
    with source.writers.open("wb") as file:
        file.truncate(BYTES // LINE_BYTES * 16)
    (tmp_path / "System.map").write_text(SYSTEM_MAP, encoding="ascii")
    return source


def put(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_equal_files_lose_nothing(files: Source) -> None:
    """Then the kernel is not read either."""
    files = replace(files, kernel=lambda: pytest.fail("nothing is lost: why ask?"))
    assert loss_of(files).lines == ()


def test_missing_kernel_is_reported_and_lines_are_counted(files: Source) -> None:
    def missing() -> tuple[Path, Path]:
        raise InfraError("no config there")

    put(files.seen, 0, b"\1")
    loss = loss_of(replace(files, kernel=missing))
    assert loss.problems == ("no owners of lost lines: no config there",)
    assert loss.kinds == {"unknown": 1}


def test_each_line_that_differs_is_counted_once(files: Source) -> None:
    # In a hole of media, across two lines, and where only media has data.
    put(files.seen, 63, b"\1\2")
    put(files.seen, CHUNK_BYTES + 4096 + 70, b"\0")
    put(files.media, BYTES - 1, b"\1")
    found = [(lost.line, lost.first) for lost in lost_lines(View(files.seen), View(files.media))]
    begin = (CHUNK_BYTES + 4096) // LINE_BYTES
    assert found == [(0, 63), (1, 0), (begin + 1, 6), (BYTES // LINE_BYTES - 1, 63)]


def test_files_of_two_machines_are_refused(files: Source) -> None:
    with files.media.open("r+b") as file:
        file.truncate(BYTES - 4096)
    with pytest.raises(RemError, match="they are not of one machine"):
        loss_of(files)
    files.media.unlink()
    with pytest.raises(InfraError, match="cannot read"):
        loss_of(files)


def test_memory_without_a_kernel_is_reported_and_counted(files: Source) -> None:
    put(files.seen, 0, random.Random(1).randbytes(1 << 20))
    loss = loss_of(files)
    assert len(loss.lines) == (1 << 20) // LINE_BYTES
    assert len(loss.problems) == 1 and "holds no kernel" in loss.problems[0]


def test_kernel_with_damaged_page_table_is_reported(files: Source) -> None:
    put(files.seen, 2 << 20, b"\xff" * 0x8000)
    put(files.seen, (2 << 20) + 0x1000, b"Linux version 6.12")
    (problem,) = loss_of(files).problems
    assert "page table" in problem and "damaged" in problem


@pytest.mark.parametrize(
    "damage",
    [
        drgn.FaultError("not mapped", 64),
        OverflowError("too big"),
        LookupError("no such"),
        NotImplementedError("unknown maple_type 6"),
    ],
)
def test_partly_damaged_kernel_is_reported(
    files: Source, monkeypatch: pytest.MonkeyPatch, damage: Exception
) -> None:
    def broken(_kernel: object) -> None:
        raise damage

    monkeypatch.setattr("lab.lost_lines.report.Kernel", lambda *_: None)
    monkeypatch.setattr("lab.lost_lines.report.Pages", broken)
    (files.seen.parent / "System.map").write_text(SYSTEM_MAP, encoding="ascii")
    put(files.seen, 0, b"x")
    loss = loss_of(files)
    assert len(loss.lines) == 1
    assert "damaged" in loss.problems[0]


def test_missing_map_is_named(files: Source) -> None:
    put(files.seen, 0, b"\1")
    (files.seen.parent / "System.map").unlink()
    with pytest.raises(InfraError, match=r"System\.map: No such file"):
        loss_of(files)


def test_last_writer_of_a_line_is_reported(files: Source, tmp_path: Path) -> None:
    put(files.seen, 128, b"\1")
    put(files.seen, 4096, b"\1")
    assert files.writers is not None
    put(files.writers, 2 * 16, struct.pack("<QQ", TEXT + 0x234, 7000 << 8 | 3))
    put(files.writers, 3 * 16, struct.pack("<QQ", TEXT, 1))  # of a line that was not lost
    first, second = loss_of(files).lines
    assert (first.writer, first.cpu, first.time_ns) == ("do_store", 3, 7000)
    assert (second.writer, second.time_ns) == (UNSEEN, None)
    table = tmp_path / "lost.csv"
    write_csv(loss_of(files), table)
    rows = table.read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3
    assert rows[1].startswith(f"{NVRAM_PHYS + 128:#x},") and "do_store" in rows[1]


def test_places_have_names(tmp_path: Path) -> None:
    path = tmp_path / "System.map"
    path.write_text(SYSTEM_MAP, encoding="ascii")
    symbols = Symbols(path)
    symbols.slide = 0x400000
    process = Process(7, "sh", [Mapping(0x400000, 0x500000, "/bin/sh", 0x1000)])
    assert place_of(TEXT + 0x400200, symbols, None) == "do_store"
    assert place_of(TEXT + 0x200, symbols, None) == f"kernel {TEXT + 0x200:#x}"
    assert place_of(0x400010, symbols, process) == "sh[7]: /bin/sh+0x1010"
    assert place_of(0x900000, symbols, process) == "a program at 0x900000"
    assert place_of(0x105790, symbols, None) == "the loader"
    assert place_of(PROGRAM, symbols, process) == "a program"
    assert symbols.per_cpu_name(0x1008) == "runqueues"


def test_parts_of_the_record_have_names() -> None:
    """Each part that format/rem_image.h places has a name, up to its last byte."""
    begins = sorted({0, *(at for name, at in fmt.CONST.items() if is_part(name))})
    assert len(begins) == 11
    ends = [*begins[1:], fmt.CONST["REM_BLOCK_BYTES"]]
    names = [
        {part_of_block(begin), part_of_block(end - 1)}
        for begin, end in zip(begins, ends, strict=True)
    ]
    assert [len(some) for some in names] == [1] * 11
    assert len(set.union(*names)) == 11
    assert names[0] == {"block header"}
    assert part_of_block(0x3000) == "commit words"
    assert part_of_block(0x38000) == "timelines"


def is_part(name: str) -> bool:
    return name.startswith("REM_") and name.endswith("_OFFSET") and name.count("_") == 2


def test_saved_stack_pointer_is_where_the_kernel_has_it() -> None:
    """Which stacks are dead after a Stop depends on it."""
    header = (repo_dir() / "kernel" / "x86" / "isa.h").read_text(encoding="utf-8")
    assert f"#define REM_CTX_RSP {RSP_OFFSET}\n" in header

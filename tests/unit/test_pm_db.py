# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The database of experiment pm-db, on the host: what it calls a row is one that was put there.

Goal: its counts can be trusted after a cut. Method: its files, which need no persistent memory, are
changed as a cut or a disk may leave them; in each case fewer rows are found, and none is wrong. A
segment's table is the mapped file's; its flushes are tried by the experiment, in a guest.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.setup.pm import USER_FLAGS

ROWS = 300
ROW_BYTES = 128
INDEX_AT, INDEX_BYTES = 64, 32768 * 8
ROWS_AT = INDEX_AT + INDEX_BYTES


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pm, out = repo_dir() / "pm", tmp_path_factory.mktemp("pm-db") / "pm-db"
    words: list[str | Path] = ["-I", pm / "include", "-I", pm / "lib", "-o", out]
    sources = [pm / "guest" / "pm-db.c", *sorted((pm / "lib").glob("*.c"))]
    subprocess.run(["gcc", *USER_FLAGS, *words, *sources], check=True)
    return out


def numbers(*words: object, returncode: int = 0) -> dict[str, int]:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False
    )
    assert done.returncode == returncode, done.stderr
    return {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}


def fill(program: Path, way: str, file: Path) -> dict[str, int]:
    return numbers(program, "fill", way, file, "-", ROWS)


def look(program: Path, way: str, file: Path) -> tuple[int, int, int]:
    found = numbers(program, "look", way, file, ROWS)
    return found["rows"], found["changed"], found["wrong"]


def change(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


@pytest.mark.parametrize("way", ["mapped", "cache"])
def test_rows_are_there_for_the_next_program(program: Path, tmp_path: Path, way: str) -> None:
    found = fill(program, way, tmp_path / "file")
    assert (found["rows"], found["changed"], found["wrong"]) == (ROWS, ROWS, 0)
    assert look(program, way, tmp_path / "file") == (ROWS, ROWS, 0)


def test_rows_of_memory_are_gone_with_the_program(program: Path, tmp_path: Path) -> None:
    assert fill(program, "memory", tmp_path / "file")["rows"] == ROWS
    assert not (tmp_path / "file").exists()


def test_log_ends_at_the_first_row_that_is_not_whole(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    fill(program, "cache", file)
    change(file, (ROWS + 10) * ROW_BYTES + 60, b"\0")  # in the eleventh change
    assert look(program, "cache", file) == (ROWS, 10, 0)
    change(file, 20 * ROW_BYTES, bytes(ROW_BYTES))
    assert look(program, "cache", file) == (20, 0, 0)
    change(file, 0, bytes(2 * ROWS * ROW_BYTES))
    assert look(program, "cache", file) == (0, 0, 0)


def test_row_that_is_not_the_one_put_there_is_wrong(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    fill(program, "mapped", file)
    # Each change takes the place that the one before it has freed: the last one's is free.
    change(file, ROWS_AT + 5 * ROW_BYTES + 40, b"\xff\xff")
    found = look(program, "mapped", file)
    assert found[2] == 1
    change(file, INDEX_AT, bytes(INDEX_BYTES))
    assert look(program, "mapped", file) == (0, 0, 0)


def test_index_that_names_a_place_twice_or_none_that_exists_is_refused(
    program: Path, tmp_path: Path
) -> None:
    for words in ((1, 1), (1 << 40,)):
        file = tmp_path / f"file-{len(words)}"
        fill(program, "mapped", file)
        change(file, INDEX_AT, b"".join(word.to_bytes(8, "little") for word in words))
        numbers(program, "look", "mapped", file, ROWS, returncode=4)


BAD_WORDS = (
    "",
    "fill",
    "look cache file 0",
    "look no-way file 1",
    "fill memory - - 20001",
)


@pytest.mark.parametrize("words", BAD_WORDS)
def test_bad_words_are_a_usage_error(program: Path, words: str) -> None:
    assert numbers(program, *words.split(), returncode=2) == {}

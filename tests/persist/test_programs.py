# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a program that saves itself (guest/persist) ends with the result of the program as
written, wherever it is killed: at the ends of functions, in a log on disk, in a heap, in mapped
memory.

Method: on the host, where a file's pages outlive a killed process, so that only the order of
stores and the return to a checkpoint are tested; in a guest whose caches are lost, `rem bench
persist` does the rest. Each program is killed at moments that a seed chooses, until it ends.
Negative proof: bytes of the newest checkpoint, or of an entry of the table, are changed between two
runs, and the same check is red.
"""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.setup.persist import PersistPrograms
from lab.setup.products import need
from lab.testbed.guest_job import numbers_in
from lab.verdict import BrokenError

pytestmark = pytest.mark.full

# Rounds that take half a second or more on any host, and so several kills.
ROUNDS = {
    "compress": 100,
    "matrix": 400,
    "path": 100,
    "sha512": 3000,
    "sort": 60,
    "stencil": 6000,
    "table": 48_000,
    "table_short": 96_000,
    "tree": 30,
}
KEEPERS = {
    "block": ("--folder", "."),
    "dax": ("--file", "table", "--volatile", "1"),
    "heap": ("--file", "heap", "--volatile", "1"),
}
KEEPER_STEPS = 48_000
FACTORS = (1, 4, 16)
# Files in which a keeper has the table, and whether each ends with its checksum.
TABLES = {
    "block": ({"table0", "table1"}, True),
    "dax": ({"table"}, False),
    "heap": ({"heap"}, False),
}
TABLE_ENTRIES, ENTRY_WORDS = 32_768, 8  # guest/persist/table.h
SHORTEST_S, LONGEST_S = 0.01, 0.4
KILLS_MAX = 200
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def programs() -> Path:
    return need(PersistPrograms())


def digest_in(text: str) -> int:
    """-1 where there is none."""
    line = next((line for line in text.splitlines() if line.startswith("OK ")), "")
    return numbers_in(line).get("digest", -1)


def digest_as_written(programs: Path, program: str, rounds: int) -> int:
    argv: list[str | Path] = [programs / program, "--rounds", str(rounds)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return digest_in(done.stdout)


def run_and_kill(
    argv: list[str | Path],
    cwd: Path,
    seed: int,
    after_kill: Callable[[], None] = lambda: None,
) -> tuple[str, int]:
    """Run until it ends, killed again and again; its output, and how often it recovered."""
    chosen = random.Random(seed)
    recoveries = 0
    for number in range(KILLS_MAX + 1):
        limit_s = chosen.uniform(SHORTEST_S, LONGEST_S) if number < KILLS_MAX else LIMIT_S
        child = subprocess.Popen(argv, cwd=cwd, stdout=subprocess.PIPE, text=True)
        try:
            output, _ = child.communicate(timeout=limit_s)
            ended = True
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            ended = False
        recoveries += "recovered=" in output and "recovered=0 " not in output
        if ended:
            return output, recoveries
        after_kill()
    raise AssertionError("not reached: the last run has no kill")


def check_result(output: str, wanted: int) -> None:
    """Inner check."""
    if digest_in(output) != wanted:
        raise BrokenError("other-result", f"{output!r}, as written: {wanted}")


def killed_until_it_recovers(
    programs: Path,
    work: str,
    rounds: int,
    words_of: Callable[[int], list[str | Path]],
    folder: Path,
    after_kill: Callable[[Path], None] = lambda _: None,
) -> tuple[str, int]:
    """The output of a run that was killed and came back, and the digest it should have. With more
    rounds where the host is so fast that the run ends before.
    """
    for factor in FACTORS:
        here = folder / str(factor)
        here.mkdir()
        words = words_of(rounds * factor)
        output, recoveries = run_and_kill(words, here, 1, partial(after_kill, here))
        if recoveries:
            return output, digest_as_written(programs, work, rounds * factor)
    raise AssertionError("it was never killed while it worked")


def checkpointing(programs: Path, program: str) -> Callable[[int], list[str | Path]]:
    path = programs / f"{program}-checkpoint"
    return lambda rounds: [
        path, "--rounds", str(rounds), "--file", "checkpoint", "--volatile", "1"
    ]  # fmt: skip


def keeping(programs: Path, keeper: str) -> Callable[[int], list[str | Path]]:
    path = programs / f"table-{keeper}"
    return lambda rounds: [path, "--rounds", str(rounds), *KEEPERS[keeper]]


def test_all_programs_are_here() -> None:
    works = (repo_dir() / "guest" / "persist" / "works").glob("*.c")
    assert sorted(ROUNDS) == sorted(path.stem for path in works)
    assert len(ROUNDS) >= 8


@pytest.mark.parametrize("program", sorted(ROUNDS))
def test_checkpoints_at_the_ends_of_functions(programs: Path, tmp_path: Path, program: str) -> None:
    words_of = checkpointing(programs, program)
    check_result(*killed_until_it_recovers(programs, program, ROUNDS[program], words_of, tmp_path))


@pytest.mark.parametrize("keeper", sorted(KEEPERS))
def test_table_kept_in_other_ways(programs: Path, tmp_path: Path, keeper: str) -> None:
    words_of = keeping(programs, keeper)
    check_result(*killed_until_it_recovers(programs, "table", KEEPER_STEPS, words_of, tmp_path))


def mix(number: int) -> int:
    """work_mix() of guest/persist/work.h."""
    mask = (1 << 64) - 1
    number = number + 0x9E3779B97F4A7C15 & mask
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & mask
    number = (number ^ number >> 27) * 0x94D049BB133111EB & mask
    return number ^ number >> 31


def change_entry(file: Path, has_checksum: bool) -> None:
    """Change an entry that no step has changed yet; the file's own checksum stays right."""
    data = bytearray(file.read_bytes())
    for index in range(TABLE_ENTRIES):
        words = (mix(index * ENTRY_WORDS + word) for word in range(ENTRY_WORDS))
        at = data.find(struct.pack(f"<{ENTRY_WORDS}Q", *words))
        if at >= 0:
            data[at] ^= 1
            break
    if has_checksum:
        checksum = 1 << 32 | zlib.crc32(data[:-8])
        data[-8:] = struct.pack("<Q", checksum)
    file.write_bytes(data)


@pytest.mark.parametrize("keeper", sorted(KEEPERS))
def test_changed_entry_is_found(programs: Path, tmp_path: Path, keeper: str) -> None:
    names, has_checksum = TABLES[keeper]

    def damage(folder: Path) -> None:
        for file in folder.iterdir():
            if file.name in names and file.stat().st_size > TABLE_ENTRIES * ENTRY_WORDS * 8:
                change_entry(file, has_checksum)

    words_of = keeping(programs, keeper)
    found = killed_until_it_recovers(
        programs, "table", KEEPER_STEPS, words_of, tmp_path, damage
    )  # fmt: skip
    with pytest.raises(BrokenError) as error:
        check_result(*found)
    assert error.value.verdict == "other-result"


def test_changed_checkpoint_is_found(programs: Path, tmp_path: Path) -> None:
    def damage(folder: Path) -> None:
        """The image of all variables: recovery takes from it what the log does not have."""
        with (folder / "checkpoint").open("r+b") as stream:
            stream.seek(4096)
            image = stream.read(1 << 20)
            stream.seek(4096)
            stream.write(bytes(byte ^ 1 for byte in image))

    words_of = checkpointing(programs, "table")
    found = killed_until_it_recovers(
        programs, "table", ROUNDS["table"], words_of, tmp_path, damage
    )  # fmt: skip
    with pytest.raises(BrokenError) as error:
        check_result(*found)
    assert error.value.verdict == "other-result"

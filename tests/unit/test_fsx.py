# SPDX-License-Identifier: Apache-2.0 OR MIT
"""rem-fsx finds what is wrong with a file: while it runs, and after a crash.

Method: on the host's own file system, where a second program changes a byte, or the file is as
after other operations than those that are given to the check.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir

# Of what any temporary file's system has.
LACKS = "direct,direct-read,zero,clone,collapse,insert,punch"
SEED = "7"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    out = tmp_path_factory.mktemp("programs")
    make = ["make", "-s", "-C", repo_dir() / "guest" / "programs", f"OUT={out}", out / "rem-fsx"]
    subprocess.run(make, check=True)
    return out / "rem-fsx"


def fsx(program: Path, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [program, "--path", path, "--seed", SEED, "--lacks", LACKS, *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def ran(program: Path, path: Path, count: int) -> int:
    """So many operations; the last one that was acknowledged as durable."""
    done = fsx(program, path, "--count", str(count))
    assert done.returncode == 0 and f"operations={count}" in done.stdout, done.stdout + done.stderr
    return int([line for line in done.stdout.splitlines() if line.startswith("ack fsx")][-1][8:])


def checked(program: Path, path: Path, acked: int, last: int) -> subprocess.CompletedProcess[str]:
    return fsx(program, path, "--check", "1", "--acked", str(acked), "--done", str(last))


def test_file_that_is_right_passes(program: Path, tmp_path: Path) -> None:
    for count in (1, 2, 64, 700):
        acked = ran(program, tmp_path / "file", count)
        done = checked(program, tmp_path / "file", acked, count)
        assert done.returncode == 0 and done.stdout.startswith("OK rem-fsx"), done.stdout


def test_changed_byte_is_found(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    acked = ran(program, path, 700)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x5A
    path.write_bytes(data)
    done = checked(program, path, acked, 700)
    assert done.returncode == 1 and "as after no operation" in done.stdout
    assert len(done.stderr.splitlines()) == 40  # the last operations


def test_lost_operations_are_found(program: Path, tmp_path: Path) -> None:
    """The file is as after fewer operations than were acknowledged."""
    ran(program, tmp_path / "file", 200)
    assert checked(program, tmp_path / "file", 500, 520).returncode == 1


def test_operations_that_never_began_are_found(program: Path, tmp_path: Path) -> None:
    ran(program, tmp_path / "file", 500)
    assert checked(program, tmp_path / "file", 150, 160).returncode == 1


@pytest.mark.parametrize("change", [b"", None])
def test_other_size_is_found(program: Path, tmp_path: Path, change: bytes | None) -> None:
    path = tmp_path / "file"
    acked = ran(program, path, 700)
    path.write_bytes(path.read_bytes() + b"\0" if change is None else change)
    done = checked(program, path, acked, 700)
    assert done.returncode == 1 and "size=" in done.stdout


def test_change_by_another_program_is_found_while_it_runs(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    words = [program, "--path", path, "--seed", SEED, "--lacks", LACKS, "--seconds", "60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while running.stdout.readline() != "":
            if path.stat().st_size > 1 << 16:
                break
        with path.open("r+b") as file:
            for at in range(0, path.stat().st_size, 512):
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0xFF]) if byte else b"")
                file.flush()
        last = running.stdout.read().splitlines()[-1]
    assert running.returncode == 1 and last.startswith("FAIL rem-fsx operation=")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--bytes", "5000"), "--bytes 5000: a multiple of 4096"),
        (("--lacks", "flying"), "--lacks flying: there is no such operation"),
        (("--check", "1", "--acked", "9", "--done", "8"), "--done 8: fewer than --acked"),
    ],
)
def test_wrong_words_are_one_line(
    program: Path, tmp_path: Path, words: tuple[str, ...], what: str
) -> None:
    (tmp_path / "file").touch()
    argv = [program, "--path", tmp_path / "file", *words]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1 and what in done.stdout and len(done.stdout.splitlines()) == 1

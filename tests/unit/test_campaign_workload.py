# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A campaign's workload: which lines are promises, how it is given, what the examples' checks find.

The examples run here as in the guest: they work, are killed, and are checked against their lines.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lab.campaign.workload import EXAMPLES, Workload, printed, standard
from lab.campaign.workload import check as workload_check
from lab.errors import InfraError, UsageError
from lab.machine import Machine

LIMIT_S = 120


def test_only_whole_lines_are_promises() -> None:
    text = "boot\r\nPROMISED 1 END\r\n# PROMISED two words END\r\nPROMISED 3 EN"
    assert printed(text) == ["1", "two words"]
    assert printed(text + "D\r\n") == ["1", "two words", "3"]


def test_line_interrupted_by_the_loader_is_not_a_promise() -> None:
    assert printed("PROMISED 1GO: resume\r\n2 END\r\nPROMISED 13 END\r\n") == ["13"]
    assert printed("PROMISED 1 PROMISED 13 END\r\n") == ["13"]


@pytest.mark.parametrize(
    "line",
    [
        "[ 49.1] rcu: INFO: rcu_preempt self-detected stall on CPU",
        "[ 49.1] watchdog: BUG: soft lockup - CPU#1 stuck for 22s!",
        "[242.0] INFO: task kworker/0:1:9 blocked for more than 120 seconds.",
        "[ 50.1] WARNING: CPU: 0 PID: 1 at mm/slub.c:1",
    ],
)
def test_kernel_that_stalls_after_a_cut_is_broken(tmp_path: Path, line: str) -> None:
    """A program that kept its promises on a kernel that did not run well is no success."""
    booted = Booted(tmp_path, "[ 1.0] all is well\n")
    assert workload_check(booted.as_machine(), standard(), "", resumed=False) is None
    booted.printed = f"{line}\n"
    broken = workload_check(booted.as_machine(), standard(), "", resumed=False)
    assert broken is not None and (broken.verdict, line in broken.text) == ("kernel-warns", True)


@dataclass
class Booted:
    """A machine whose guest keeps all promises, and what its kernel has printed."""

    folder: Path
    printed: str

    def as_machine(self) -> Machine:
        done = SimpleNamespace(ok=True)
        fake = SimpleNamespace(
            console=SimpleNamespace(text=lambda: self.printed),
            files=SimpleNamespace(directory=self.folder),
            guest=SimpleNamespace(put=lambda *_: None),
            run_in_guest=lambda *_, **__: done,
        )
        return cast(Machine, fake)


def test_end_of_the_workload_is_no_promise() -> None:
    assert printed("PROMISED 1 END\r\nPROMISED WORKLOAD-ENDED END\r\n") == ["1"]


def test_workload_is_a_program_and_its_arguments(tmp_path: Path) -> None:
    program = str(EXAMPLES / "sqlite.py")
    load = Workload.of(f"{program} wal", f"{program} check")
    assert load.workload == (program, "wal")
    assert load.name == "sqlite-wal"
    load.write(tmp_path)
    assert Workload.read(tmp_path) == load
    (tmp_path / "workload.json").write_text("{}")
    with pytest.raises(InfraError, match="record it again"):
        Workload.read(tmp_path)


@pytest.mark.parametrize("name", ["", "nowhere", "plain"])
def test_workload_that_is_no_program_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "plain").touch(mode=0o600)
    with pytest.raises(UsageError, match="--workload"):
        Workload.of(str(tmp_path / name) if name else "", str(EXAMPLES / "records-check.sh"))


def work(folder: Path, lines: int, *words: str) -> list[str]:
    """Run an example for so many promises, then kill it."""
    with subprocess.Popen(
        [EXAMPLES / words[0], *words[1:]],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        got = [child.stdout.readline().strip() for _ in range(lines)]
        os.killpg(child.pid, 9)
    return got


def check(folder: Path, promises: list[str], *words: str, boot: str = "cold") -> int:
    return subprocess.run(
        [EXAMPLES / words[0], *words[1:]],
        cwd=folder,
        input="".join(f"{line}\n" for line in promises),
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "REM_BOOT": boot},
    ).returncode


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite_keeps_its_rows_and_a_lost_one_is_seen(tmp_path: Path, journal: str) -> None:
    rows = work(tmp_path, 5, "sqlite.py", journal)
    assert check(tmp_path, rows, "sqlite.py", "check") == 0
    assert check(tmp_path, [*rows, "9999"], "sqlite.py", "check") != 0


def test_without_flushes_only_a_resume_owes_the_rows(tmp_path: Path) -> None:
    rows = work(tmp_path, 5, "sqlite.py", "off")
    assert check(tmp_path, rows, "sqlite.py", "check", "off", boot="resume") == 0
    with (tmp_path / "base").open("r+b") as base:
        base.seek(2 * 4096)
        base.write(bytes(4096))
    assert check(tmp_path, rows, "sqlite.py", "check", "off", boot="resume") != 0
    assert check(tmp_path, rows, "sqlite.py", "check", "off", boot="cold") == 0


def test_files_are_read_back_and_a_torn_one_is_seen(tmp_path: Path) -> None:
    numbers = work(tmp_path, 3, "files.py")
    assert check(tmp_path, numbers, "files.py", "check") == 0
    with (tmp_path / "file-1").open("r+b") as file:
        file.seek(512 * 77)
        file.write(bytes(512))
    assert check(tmp_path, numbers, "files.py", "check") != 0


def test_direct_writes_are_read_back_and_a_lost_one_is_seen(tmp_path: Path) -> None:
    said_lines = work(tmp_path, 6, "direct.py")
    assert check(tmp_path, said_lines, "direct.py", "check") == 0
    assert check(tmp_path, [*said_lines, "0 40"], "direct.py", "check") != 0


def test_records_are_counted(tmp_path: Path) -> None:
    numbers = work(tmp_path, 3, "records.sh")
    assert check(tmp_path, numbers, "records-check.sh") == 0
    assert check(tmp_path, ["1", "99"], "records-check.sh") != 0
    (tmp_path / "log").write_text("1\n3\n")
    assert check(tmp_path, ["1"], "records-check.sh") != 0

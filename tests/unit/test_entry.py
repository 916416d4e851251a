# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The entry script `rem` on a machine without Python: it installs it, or ends with one line.

Method: PATH has a few real programs and invented ones in place of apt-get, dpkg and Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import repo_dir

NEEDED = ("bash", "cat", "chmod", "cp", "dirname", "env", "flock", "grep", "mkdir", "readlink")
NEEDED += ("rm", "sha256sum", "sleep", "tail", "tee", "touch")
NOBODY = 65534
# Its venv is a copy of itself; `-m lab` prints what the command line would get.
PYTHON = """#!/usr/bin/env bash
case "$*" in
-c*) exit 0 ;;
"-m venv --clear "*) rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-m pip install "*) echo Collecting one; echo Collecting two; {pip} ;;
"-m lab "*) echo "lab: ${{*:3}} lists=${{REM_APT_UPDATED-old}} began=$REM_BEGAN_S" ;;
*) exit 9 ;;
esac
"""
APT = """#!/usr/bin/env bash
echo "apt-get $*" >>{calls}
[[ $* != *update* ]] || {update}
[[ $* != *install* ]] || cp {python} {bin}/python3
"""


class Bare:
    """A machine without Python, whose apt can install one."""

    def __init__(self, folder: Path, pip: str = "true", update: str = "true") -> None:
        self.bin, self.cache, self.calls = folder / "bin", folder / "cache", folder / "calls"
        self.bin.mkdir()
        self.cache.mkdir()
        for name in NEEDED:
            found = shutil.which(name)
            assert found is not None, name
            (self.bin / name).symlink_to(Path(found).resolve())
        self.checkout = folder / "checkout"
        for file in ("rem", "lab/requirements.txt"):
            (self.checkout / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repo_dir() / file, self.checkout / file)
        python = folder / "python"
        self._write(python, PYTHON.format(pip=pip))
        text = APT.format(calls=self.calls, update=update, python=python, bin=self.bin)
        self._write(self.bin / "apt-get", text)
        self._write(self.bin / "dpkg", f'#!/usr/bin/env bash\necho "dpkg $*" >>{self.calls}\n')

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def rem(self, *words: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "HOME": "/nowhere", "REM_CACHE": str(self.cache)}
        argv = [str(self.bin / "bash"), self.checkout / "rem", *words]
        return subprocess.run(
            argv, env=env, user=user, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where an ordinary user may read, too."""
    with tempfile.TemporaryDirectory(prefix="rem-entry-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 4
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.endswith("...")]
    assert len(lines) == 1, done.stderr
    return lines[0]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it installs packages")


@needs_root
def test_root_gets_python_its_packages_and_the_command(folder: Path) -> None:
    machine = Bare(folder)
    done = machine.rem("demo", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lab: demo --json lists=1 began=1")
    calls = machine.calls.read_text().splitlines()
    assert calls[0] == "dpkg --configure -a"  # what was interrupted is finished first
    assert [call.split()[-1] for call in calls[1:]] == ["update", "python3-venv"]
    assert machine.rem("ps").stdout.startswith("lab: ps lists=old")
    assert machine.calls.read_text().splitlines() == calls  # nothing is installed again


@needs_root
def test_a_venv_that_was_not_completed_is_rebuilt(folder: Path) -> None:
    machine = Bare(folder)
    assert machine.rem("ps").returncode == 0
    (venv,) = (path for path in (machine.cache / "venv").iterdir() if path.is_dir())
    (venv / "complete").unlink()
    (venv / "left-behind").touch()
    assert machine.rem("ps").returncode == 0
    assert (venv / "complete").exists()
    assert not (venv / "left-behind").exists()


@needs_root
@pytest.mark.parametrize(
    ("pip", "update", "expected"),
    [
        ("{ echo 'ERROR: [Errno 28] No space left on device'; exit 1; }", "true", "No space left"),
        ("true", "{ echo 'E: Some index files failed'; exit 100; }", "no network or no disk"),
    ],
)
def test_a_failure_is_one_line(folder: Path, pip: str, update: str, expected: str) -> None:
    line = one_line(Bare(folder, pip, update).rem("demo"))
    assert line.startswith("rem: ")
    assert expected in line


def test_without_root_the_line_has_the_command_for_root(folder: Path) -> None:
    machine = Bare(folder)
    if os.geteuid() == 0:
        os.chown(machine.cache, NOBODY, NOBODY)
        done = machine.rem("demo", user=NOBODY)
    else:
        done = machine.rem("demo")
    command = f"as root, once: REM_CACHE={machine.cache} {machine.checkout}/rem setup"
    assert one_line(done).endswith(command)
    assert not machine.calls.exists()


def test_a_cache_that_cannot_be_written_is_one_line(folder: Path) -> None:
    machine = Bare(folder)
    machine.cache.rmdir()
    machine.cache.touch()
    assert "cannot write to" in one_line(machine.rem("demo"))

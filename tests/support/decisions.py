# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel's decisions, compiled for the host: decide.c of kernel/resume/ and kernel/stop/, and
what else there is pure.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from lab.paths import repo_dir


def compiled(folder: Path, room: str, name: str = "decide") -> ctypes.CDLL:
    """NAME.c of a room of kernel/, as a library of the host."""
    out = folder / f"{room}-{name}.so"
    source = repo_dir() / "kernel" / room / f"{name}.c"
    subprocess.run(["gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", out, source], check=True)
    return ctypes.CDLL(str(out))


def judge_hostile_redo_areas(folder: Path, cases: int) -> str:
    """Run tests/support/redo_hostile.c; return what it says of so many, or raise AssertionError."""
    source = repo_dir() / "tests" / "support" / "redo_hostile.c"
    flags = ["-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsanitize=address,undefined"]
    program = folder / "hostile"
    words = ["gcc", *flags, "-fno-sanitize-recover=all", "-o", program, source]
    subprocess.run(words, check=True)
    done = subprocess.run([program, str(cases), "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

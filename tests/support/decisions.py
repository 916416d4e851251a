# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel's decisions, compiled for the host: decide.c of kernel/resume/ and kernel/stop/."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from lab.paths import repo_dir


def compiled(folder: Path, room: str) -> ctypes.CDLL:
    """decide.c of a room of kernel/, as a library of the host."""
    out = folder / f"{room}.so"
    source = repo_dir() / "kernel" / room / "decide.c"
    subprocess.run(["gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", out, source], check=True)
    return ctypes.CDLL(str(out))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs of the loader's own tests, for tests of whole loaders."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.paths import repo_dir
from lab.setup.loader import Loader
from lab.setup.products import need


def make_build_record(out: Path) -> Path:
    """The program that writes a record block; *out* is a folder for it."""
    need(Loader())  # its compilers
    subprocess.run(["make", "-s", "-C", repo_dir() / "loader", "tools", f"OUT={out}"], check=True)
    return out / "host" / "build-record"

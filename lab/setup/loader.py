# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader: go/, built by its own Makefile."""

from __future__ import annotations

from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.run import run, stream
from lab.setup import cache
from lab.setup.inputs import Inputs
from lab.setup.progress import Progress


def ensure_loader(progress: Progress) -> Path:
    """go.elf of this checkout."""
    repo = repo_dir()
    compiler = run(["clang", "--version"]).stdout.splitlines()[0]
    inputs = Inputs("loader").add("clang", compiler)
    key = inputs.add_path(repo / "go", "go").add_path(repo / "format", "format").key()

    def make(into: Path) -> None:
        log = cache_dir() / "logs" / "loader.log"
        with progress.step("loader"):
            stream(["make", "-C", repo / "go", f"OUT={into}"], log=log, what="building the loader")

    return cache.product("go", key, make) / "go.elf"

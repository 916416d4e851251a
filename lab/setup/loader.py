# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader, built by its own Makefile; for the tests of the tests also with planted bugs."""

from __future__ import annotations

from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup import cache
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.progress import Progress


def loader_key(mutants: bool = False) -> str:
    repo = repo_dir()
    inputs = Inputs("loader-mutants" if mutants else "loader").add("gcc", tool_version("gcc"))
    return inputs.add_path(repo / "loader", "loader").add_path(repo / "format", "format").key()


def ensure_loader(progress: Progress, mutants: bool = False) -> Path:
    """loader.elf of this checkout."""
    repo = repo_dir()
    key = loader_key(mutants)
    words = ["MUTANTS=1"] if mutants else []

    def make(into: Path) -> None:
        log = cache_dir() / "logs" / "loader.log"
        with progress.step("loader"):
            argv: list[str | Path] = ["make", "-C", repo / "loader", f"OUT={into}", *words]
            stream(argv, log=log, what="building the loader")

    return cache.product("loader", key, make) / "loader.elf"

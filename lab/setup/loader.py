# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader, built by its own Makefile; for the tests of the tests also with planted bugs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group


def loader_key(mutants: bool = False) -> str:
    repo = repo_dir()
    inputs = Inputs("loader-mutants" if mutants else "loader").add("gcc", tool_version("gcc"))
    return inputs.add_path(repo / "loader", "loader").add_path(repo / "format", "format").key()


@dataclass(frozen=True)
class Loader(Part[Path]):
    """loader.elf of this checkout; *mutants*: with planted bugs."""

    mutants: bool = False

    groups = (Group.COMPILER, Group.CLANG)

    def make(self, site: Site) -> Path:
        words = ["MUTANTS=1"] if self.mutants else []

        def build(into: Path) -> None:
            log = cache_dir() / "logs" / "loader.log"
            with step("loader"):
                argv: list[str | Path] = ["make", "-C", repo_dir() / "loader", f"OUT={into}"]
                stream([*argv, *words], log=log, what="building the loader")

        return site.product("loader", loader_key(self.mutants), build) / "loader.elf"

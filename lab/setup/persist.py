# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The programs that persist in other ways than by Stop and Go, for a guest (guest/persist)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.heap import HeapLibrary
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

SOURCES = ("guest/persist", "guest/programs/check.c", "guest/programs/check.h", "heap/c/include")


@dataclass(frozen=True)
class PersistPrograms(Part[Path]):
    """A folder with them: static, for any x86-64 Linux."""

    groups = (Group.COMPILER,)

    def requires(self) -> tuple[Part[Any], ...]:
        return (HeapLibrary(),)

    def make(self, site: Site) -> Path:
        heap = site[HeapLibrary()]
        inputs = Inputs("persist").add("gcc", tool_version("gcc")).add("heap", str(heap))
        for name in SOURCES:
            inputs.add_path(repo_dir() / name, name)

        def build(into: Path) -> None:
            argv = ["make", "-C", "guest/persist", f"OUT={into}", f"HEAP={heap}"]
            log = cache_dir() / "logs" / "persist.log"
            with step("programs that persist"):
                stream(argv, cwd=repo_dir(), log=log, what="compiling guest/persist")

        return site.product("persist", inputs.key(), build)

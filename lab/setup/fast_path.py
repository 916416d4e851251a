# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guest of `rem bench fast-path`: one static program in an initial RAM disk.

It needs no disk and no driver, so any x86-64 kernel starts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup import newc
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

FORMAT = "1"  # raised when the packing changes


@dataclass(frozen=True)
class FastPathProduct:
    init: Path  # the program, with the symbols of its marks
    initrd: Path


@dataclass(frozen=True)
class FastPath(Part[FastPathProduct]):
    """The program of this checkout, and its archive."""

    groups = (Group.COMPILER,)

    def make(self, site: Site) -> FastPathProduct:
        source = repo_dir() / "guest" / "fast-path"
        inputs = Inputs("fast-path").add("format", FORMAT).add("gcc", tool_version("gcc"))

        def build(into: Path) -> None:
            with step("guest/fast-path"):
                argv: list[str | Path] = ["make", "-C", source, f"OUT={into}"]
                stream(argv, log=cache_dir() / "logs" / "fast-path.log", what="guest/fast-path")
                init = (into / "init").read_bytes()
                (into / "initrd").write_bytes(newc.archive({"init": init}))

        key = inputs.add_path(source, "fast-path").key()
        folder = site.product("fast-path", key, build)
        return FastPathProduct(folder / "init", folder / "initrd")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A guest for hosts that are slow: all of a machine, without firmware (guest/counter).

product   CACHE/counter/KEY   counter.bin, for QEMU's `-bios`

It counts on its serial line, `guest count N.`, and checks a part of its memory in each round.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.paths import repo_dir
from lab.progress import step
from lab.run import run
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

SOURCES = "guest/counter"


@dataclass(frozen=True)
class Counter(Part[Path]):
    """The image."""

    groups = (Group.COMPILER,)

    def make(self, site: Site) -> Path:
        inputs = Inputs("counter").add("gcc", tool_version("gcc"))
        key = inputs.add_path(repo_dir() / SOURCES, SOURCES).key()

        def build(into: Path) -> None:
            with step("a guest that counts"):
                run(["make", "-C", repo_dir() / SOURCES, f"OUT={into}"], what=f"making {SOURCES}")

        return site.product("counter", key, build) / "counter.bin"

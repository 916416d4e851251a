# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs on plain memory, on libpmemobj's objects and on its transactions (guest/objects)."""

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

SOURCE = "guest/objects"
LINE = "guest/works/line.h"  # what they include besides


@dataclass(frozen=True)
class ObjectPrograms(Part[Path]):
    """A folder with them: NAME-plain, NAME-object, NAME-trans, for a guest of this Debian."""

    groups = (Group.COMPILER, Group.HEAP_PEER)

    def make(self, site: Site) -> Path:
        inputs = Inputs("objects").add("gcc", tool_version("gcc"))
        for name in (SOURCE, LINE):
            inputs.add_path(repo_dir() / name, name)

        def build(into: Path) -> None:
            argv = ["make", "-C", SOURCE, f"OUT={into}"]
            with step("programs on objects"):
                log = cache_dir() / "logs" / "objects.log"
                stream(argv, cwd=repo_dir(), log=log, what=f"compiling {SOURCE}")

        return site.product("objects", inputs.key(), build)

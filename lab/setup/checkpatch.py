# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel's own linter, from the packed kernel source.

product   CACHE/checkpatch/VERSION   checkpatch.pl and its tables
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.run import run
from lab.setup.kernel import TARBALL, kernel_source_version
from lab.setup.need import Part, Site
from lab.setup.packages import KERNEL_SOURCE, Group

FILES = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")


@dataclass(frozen=True)
class Checkpatch(Part[Path]):
    """The script."""

    groups = (Group.KERNEL,)

    def make(self, site: Site) -> Path:
        def unpack(into: Path) -> None:
            names = [f"{KERNEL_SOURCE}/scripts/{name}" for name in FILES]
            argv = ["tar", "-C", str(into), "--strip-components=2", "--occurrence"]
            run([*argv, "-xf", TARBALL, *names], env={"XZ_OPT": "-T0"}, what="unpacking checkpatch")

        return site.product("checkpatch", kernel_source_version(), unpack) / FILES[0]

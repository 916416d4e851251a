# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module of a disk whose answers take modelled time (kernel/test/rem_disk.c).

product   CACHE/slow-disk/KEY   rem_disk.ko
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.paths import repo_dir
from lab.progress import step
from lab.setup import modules
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.kernel import Kernel
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.modules import build_modules
from lab.setup.need import Part, Site
from lab.setup.packages import Group

NAME = "rem_disk"
FOLDER = "kernel/test"


@dataclass(frozen=True)
class SlowDisk(Part[Path]):
    """For the kernel of this checkout."""

    groups = (Group.COMPILER, Group.MODULES)

    def requires(self) -> tuple[Part[Any], ...]:
        return (Kernel(), KernelHeaders())

    def make(self, site: Site) -> Path:
        inputs = Inputs("slow-disk").add("kernel", site[Kernel()].key)
        inputs.add("gcc", tool_version("gcc"))
        sources = sorted((repo_dir() / FOLDER).iterdir())
        for path in (*sources, Path(__file__), Path(modules.__file__)):
            inputs.add_path(path, path.name)

        def build(into: Path) -> None:
            with step("the module of a slow disk"):
                build_modules(site[KernelHeaders()], into, sources, (), (NAME,))

        return site.product("slow-disk", inputs.key(), build) / f"{NAME}.ko"

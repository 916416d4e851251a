# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module that makes faults of a kernel (kernel/test/rem_fault.c), and its mended release.

product   CACHE/fault/KEY   rem_fault.ko, rem_fault_mended.ko
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
from lab.setup.stock_headers import StockHeaders

NAMES = ("rem_fault", "rem_fault_mended")
FOLDER = "kernel/test"


@dataclass(frozen=True)
class FaultModules:
    """Both releases of the driver."""

    defective: Path
    mended: Path


@dataclass(frozen=True)
class FaultModule(Part[FaultModules]):
    """For the kernel of this checkout, or for Debian's own."""

    stock: bool = False

    groups = (Group.COMPILER, Group.MODULES)

    def requires(self) -> tuple[Part[Any], ...]:
        return (StockHeaders(),) if self.stock else (Kernel(), KernelHeaders())

    def make(self, site: Site) -> FaultModules:
        if self.stock:
            headers, of = site[StockHeaders()].folder, site[StockHeaders()].version
        else:
            headers, of = site[KernelHeaders()], site[Kernel()].key
        inputs = Inputs("fault").add("kernel", of).add("gcc", tool_version("gcc"))
        sources = sorted((repo_dir() / FOLDER).iterdir())
        for path in (*sources, Path(__file__), Path(modules.__file__)):
            inputs.add_path(path, path.name)

        def build(into: Path) -> None:
            with step("the module of faults"):
                build_modules(headers, into, sources, (), NAMES)

        folder = site.product("fault", inputs.key(), build)
        return FaultModules(*(folder / f"{name}.ko" for name in NAMES))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The layout of the kernel's structures: debugging information of lab/lost_lines/layout.c.

product   CACHE/layout/KEY   layout.o, for one kernel
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import repo_dir
from lab.progress import step
from lab.run import run
from lab.setup import kernel
from lab.setup.inputs import Inputs
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.need import Part, Site
from lab.setup.packages import Group

KBUILD = "obj-m := layout.o\nccflags-y := -g -gdwarf-5 -I$(src)\n"
SLAB = "mm/slab.h"


@dataclass(frozen=True)
class Layout(Part[Path]):
    """For the kernel whose product *kernel_folder* is. Kernels of one source and one configuration
    have one layout: our patches change no structure that is read.
    """

    kernel_folder: Path

    groups = (Group.COMPILER, Group.KERNEL)
    lane = "kernel"

    def make(self, site: Site) -> Path:
        source = repo_dir() / "lab" / "lost_lines" / "layout.c"
        inputs = Inputs("layout").add("source", kernel.kernel_source_version())
        key = inputs.add("config", self._config()).add_path(source, "layout.c").key()

        def build(into: Path) -> None:
            headers = site[KernelHeaders(_variant(self._config()))]
            with step("layout of the kernel's structures"):
                shutil.copy(source, into / "layout.c")
                _slab_header(into)
                (into / "Makefile").write_text(KBUILD, encoding="utf-8")
                argv: list[str | Path] = ["make", "-s", "-C", headers, f"M={into}", "layout.o"]
                run(argv, env=kernel.make_env(), what="compiling the kernel's layout")

        return site.product("layout", key, build) / "layout.o"

    def _config(self) -> str:
        try:
            return (self.kernel_folder / "config").read_text(encoding="utf-8")
        except OSError as error:
            raise InfraError(
                f"{self.kernel_folder} has no config: the layout of its kernel is not known"
            ) from error


def _variant(config: str) -> str | None:
    """Return the kernel's variant with this configuration. A planted bug has no configuration."""
    match = re.search(r'^CONFIG_LOCALVERSION="-remanence-(\w+)"$', config, re.MULTILINE)
    return match[1] if match else None


def _slab_header(into: Path) -> None:
    """Copy the header from the unpacked source, or from the archive if that was removed."""
    base = kernel.base_dir(kernel.kernel_source_version())
    if (base / SLAB).is_file():
        shutil.copy(base / SLAB, into / "slab.h")
        return
    argv = ["tar", "--strip-components=2", "--wildcards", "-xf", str(kernel.TARBALL), f"*/{SLAB}"]
    run(argv, cwd=into, what="unpacking mm/slab.h")

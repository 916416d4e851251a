# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the kernel's structures are laid out: debugging information of lab/lost_lines/layout.c.

product   CACHE/layout/KEY   layout.o, for one kernel
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import run
from lab.setup import cache, kernel
from lab.setup.inputs import Inputs
from lab.setup.kernel_headers import ensure_kernel_headers
from lab.setup.progress import Progress

KBUILD = "obj-m := layout.o\nccflags-y := -g -gdwarf-5 -I$(src)\n"
SLAB = "mm/slab.h"


def ensure_layout(progress: Progress, kernel_folder: Path) -> Path:
    """For the kernel whose product that folder is. Kernels of one source and one configuration lay
    out alike: our patches change no structure that is looked at.
    """
    source = repo_dir() / "lab" / "lost_lines" / "layout.c"
    try:
        config = (kernel_folder / "config").read_text(encoding="utf-8")
    except OSError as error:
        raise InfraError(
            f"{kernel_folder} has no config: the layout of its kernel is not known"
        ) from error
    inputs = Inputs("layout").add("source", kernel.kernel_source_version())
    key = inputs.add("config", config).add_path(source, "layout.c").key()

    def make(into: Path) -> None:
        headers = ensure_kernel_headers(progress, _variant(config))
        with progress.step("layout of the kernel's structures"):
            shutil.copy(source, into / "layout.c")
            _slab_header(into)
            (into / "Makefile").write_text(KBUILD, encoding="utf-8")
            argv: list[str | Path] = ["make", "-s", "-C", headers, f"M={into}", "layout.o"]
            run(argv, env=kernel.make_env(), what="compiling the kernel's layout")

    return cache.product("layout", key, make) / "layout.o"


def _variant(config: str) -> str | None:
    """The variant of our kernel with such a configuration. A planted bug needs no configuration."""
    match = re.search(r'^CONFIG_LOCALVERSION="-remanence-(\w+)"$', config, re.MULTILINE)
    return match[1] if match else None


def _slab_header(into: Path) -> None:
    """Of the unpacked source, or of the archive where that was removed."""
    base = cache_dir() / "build" / f"linux-{kernel.kernel_source_version()}"
    if (base / SLAB).is_file():
        shutil.copy(base / SLAB, into / "slab.h")
        return
    argv = ["tar", "--strip-components=2", "--wildcards", "-xf", str(kernel.TARBALL), f"*/{SLAB}"]
    run(argv, cwd=into, what="unpacking mm/slab.h")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What modules are built against: the headers, tools and symbols of a kernel of ours.

    product   CACHE/kernel-headers/KEY   as Debian's linux-headers packages; KEY is the kernel's

The kernel's tree is shared by all checkouts and may hold another one's kernel. Then it is built
again first, which the compiler's cache makes short.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.paths import cache_dir
from lab.run import run
from lab.setup import cache, kernel
from lab.setup.progress import Progress


def ensure_kernel_headers(progress: Progress, variant: str | None = None) -> Path:
    """The folder that goes after `make -C`, for the kernel of this checkout."""
    version = kernel.kernel_source_version()
    key = kernel.kernel_key(version, variant)

    def make(into: Path) -> None:
        with cache.lock("kernel"):
            recipe = kernel.recipe_of(key, variant)
            tree = kernel.tree_dir(version, recipe)
            if not _holds(tree, key):
                with tempfile.TemporaryDirectory(dir=cache_dir() / "build") as scratch:
                    kernel.build(version, recipe, Path(scratch), progress)
            with progress.step("kernel: headers for modules"):
                _install(tree, key, into)

    return cache.product("kernel-headers", key, make)


def _holds(tree: Path, key: str) -> bool:
    """Whether the tree was last built, to its end, for this key."""
    said = tree / "include" / "generated" / "compile.h"
    return (
        said.exists()
        and f'"{key}"' in said.read_text(encoding="utf-8")
        and (tree / "vmlinux.symvers").exists()
        and (tree / "vmlinux").exists()
        and (tree / "vmlinux").stat().st_mtime >= said.stat().st_mtime
    )


def _install(tree: Path, key: str, into: Path) -> None:
    env = kernel.make_env(key)
    run(
        ["make", "-s", "CC=ccache gcc", "modules_prepare"],
        cwd=tree,
        env=env,
        what="kernel: modules_prepare",
    )
    # Without modules of its own a kernel's symbols are those of vmlinux.
    shutil.copy(tree / "vmlinux.symvers", tree / "Module.symvers")
    words = {"srctree": ".", "SRCARCH": "x86", "CC": "gcc", "HOSTCC": "gcc", "MAKE": "make"}
    run(
        ["scripts/package/install-extmod-build", into],
        cwd=tree,
        env={**env, **words},
        what="kernel: headers",
    )
    (tree / "Module.symvers").unlink()

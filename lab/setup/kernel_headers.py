# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files to build modules against: headers, tools and symbols of a kernel of ours.

    product   CACHE/kernel-headers/KEY   as Debian's linux-headers packages; KEY is the kernel's

The kernel's tree is shared by all checkouts and may hold another one's kernel. Then the kernel is
rebuilt first, which is fast because of the compiler's cache.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir
from lab.progress import step
from lab.run import run
from lab.setup import cache, kernel
from lab.setup.need import Part, Site
from lab.setup.packages import Group


@dataclass(frozen=True)
class KernelHeaders(Part[Path]):
    """The folder for `make -C`, for the kernel of this checkout or a variant of it."""

    variant: str | None = None

    groups = (Group.COMPILER, Group.KERNEL)
    lane = "kernel"

    def requires(self) -> tuple[Part[kernel.KernelProduct]]:
        return (kernel.Kernel(self.variant),)

    def make(self, site: Site) -> Path:
        version = kernel.kernel_source_version()
        key = site[kernel.Kernel(self.variant)].key

        suffix = kernel.tree_of(self.variant)

        def build(into: Path) -> None:
            with cache.lock(kernel.tree_lock(suffix)):
                recipe = kernel.recipe_of(key, self.variant)
                tree = kernel.tree_dir(version, recipe)
                if not _holds(tree, key):
                    with tempfile.TemporaryDirectory(dir=cache_dir() / "build") as scratch:
                        kernel.build(version, recipe, Path(scratch))
                with step("kernel: headers for modules"):
                    _install(tree, key, into)

        return site.product("kernel-headers", key, build, f"kernel-headers{suffix}")


def _holds(tree: Path, key: str) -> bool:
    """Whether the tree was last built, to its end, for this key."""
    header = tree / "include" / "generated" / "compile.h"
    return (
        header.exists()
        and f'"{key}"' in header.read_text(encoding="utf-8")
        and (tree / "vmlinux.symvers").exists()
        and (tree / "vmlinux").exists()
        and (tree / "vmlinux").stat().st_mtime >= header.stat().st_mtime
    )


def _install(tree: Path, key: str, into: Path) -> None:
    env = kernel.make_env(key)
    run(
        [*kernel.MAKE, "-s", "modules_prepare"],
        cwd=tree,
        env=env,
        what="kernel: modules_prepare",
    )
    # The symbols of a kernel without modules are those of vmlinux.
    symbols = tree / "Module.symvers"
    has_modules = symbols.exists()
    if not has_modules:
        shutil.copy(tree / "vmlinux.symvers", symbols)
    words = {"srctree": ".", "SRCARCH": "x86", "CC": "gcc", "HOSTCC": "gcc", "MAKE": "make"}
    run(
        ["scripts/package/install-extmod-build", into],
        cwd=tree,
        env={**env, **words},
        what="kernel: headers",
    )
    if not has_modules:
        symbols.unlink()

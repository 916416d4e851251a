# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader, built by its own Makefile.

For negative proofs there is a second one: a copy of the sources with all patches of loader/mutants
(patch_series.py). A boot of it chooses a planted bug by name.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.isa import RISCV64
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.patch_series import Series, add_series, patched_copy, read_series

SOURCES = (
    *(f"loader/{name}" for name in ("Makefile", "loader.ld", "loader_efi.ld")),
    *(f"loader/{name}" for name in ("core", "entry", "hw", "main", "x86")),
    "format",
)
RISCV_SOURCES = (
    *(f"loader/{name}" for name in ("Makefile", "loader_riscv.ld")),
    *(f"loader/{name}" for name in ("core", "entry", "hw", "main", "riscv")),
    "format",
)


def loader_mutants(repo: Path) -> Series:
    """The planted bugs of the loader."""
    return read_series(repo / "loader" / "mutants")


def loader_key(mutants: bool = False) -> str:
    """Hash of the inputs, to which the patches belong only if they are applied."""
    repo = repo_dir()
    inputs = Inputs("loader-mutants" if mutants else "loader").add("gcc", tool_version("gcc"))
    for name in SOURCES:
        inputs.add_path(repo / name, name)
    if mutants:
        add_series(inputs, loader_mutants(repo))
    return inputs.key()


@dataclass(frozen=True)
class Loader(Part[Path]):
    """loader.elf of this checkout, with loader.efi beside it.

    *mutants*: with all planted bugs, none of them enabled.
    """

    mutants: bool = False

    groups = (Group.COMPILER, Group.CLANG)

    def make(self, site: Site) -> Path:
        repo = repo_dir()

        def build(into: Path) -> None:
            with step("loader"):
                if not self.mutants:
                    _build(repo, into)
                    return
                with tempfile.TemporaryDirectory(prefix="rem-mutants-") as folder:
                    patched_copy(repo, SOURCES, loader_mutants(repo).patches, Path(folder))
                    _build(Path(folder), into)

        return site.product("loader", loader_key(self.mutants), build) / "loader.elf"


@dataclass(frozen=True)
class RiscvLoader(Part[Path]):
    """The same loader for RISC-V."""

    groups = (Group.COMPILER, Group.RISCV_BUILD)

    def make(self, site: Site) -> Path:
        inputs = Inputs("loader-riscv64").add("gcc", tool_version(f"{RISCV64.tools}gcc"))
        for name in RISCV_SOURCES:
            inputs.add_path(repo_dir() / name, name)

        def build(into: Path) -> None:
            with step("loader for RISC-V"):
                _build(repo_dir(), into, "riscv")

        return site.product("loader-riscv64", inputs.key(), build) / "loader-riscv64.elf"


def _build(root: Path, into: Path, target: str = "all") -> None:
    argv: list[str | Path] = ["make", "-C", root / "loader", target, f"OUT={into}"]
    stream(argv, log=cache_dir() / "logs" / "loader.log", what="building the loader")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader, built by its own Makefile.

For negative proofs there is a second one: a copy of the sources with all patches of loader/mutants
(patch_series.py). A boot of it chooses a planted bug by name.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.isa import ISAS, IsaName
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.patch_series import Series, add_series, patched_copy, read_series

SHARED = ("Makefile", "core", "entry", "hw", "main")
OF_ISA: dict[IsaName, tuple[str, ...]] = {
    "x86_64": ("loader.ld", "loader_efi.ld", "x86"),
    "riscv64": ("loader_riscv.ld", "riscv"),
}
TARGETS: dict[IsaName, tuple[str, str]] = {  # of make, and what it makes
    "x86_64": ("all", "loader.elf"),
    "riscv64": ("riscv", "loader-riscv64.elf"),
}
# Patches are of all instruction sets.
EVERY = (*SHARED, *(name for names in OF_ISA.values() for name in names))


def sources(isa: IsaName) -> tuple[str, ...]:
    """What a loader is made of, from the repository's folder."""
    return _named((*SHARED, *OF_ISA[isa]))


def _named(names: tuple[str, ...]) -> tuple[str, ...]:
    return (*(f"loader/{name}" for name in names), "format")


def loader_mutants(repo: Path) -> Series:
    """The planted bugs of the loader."""
    return read_series(repo / "loader" / "mutants")


def loader_key(mutants: bool = False, isa: IsaName = "x86_64") -> str:
    """Hash of the inputs, to which the patches belong only if they are applied."""
    repo = repo_dir()
    name = "loader" if isa == "x86_64" else f"loader-{isa}"
    inputs = Inputs(f"{name}-mutants" if mutants else name)
    inputs.add("gcc", tool_version(f"{ISAS[isa].tools}gcc"))
    for source in _named(EVERY) if mutants else sources(isa):
        inputs.add_path(repo / source, source)
    if mutants:
        add_series(inputs, loader_mutants(repo))
    return inputs.key()


@dataclass(frozen=True)
class Loader(Part[Path]):
    """The loader of this checkout, on x86-64 with loader.efi beside it.

    *mutants*: with all planted bugs, none of them enabled.
    """

    mutants: bool = False
    isa: IsaName = "x86_64"

    groups = (Group.COMPILER, Group.CLANG)

    def needs_groups(self) -> tuple[Group, ...]:
        """Return packages, a compiler for its architecture among them."""
        if self.isa == "x86_64":
            return self.groups
        return (Group.COMPILER, Group.RISCV_BUILD)

    def make(self, site: Site) -> Path:
        repo = repo_dir()

        def build(into: Path) -> None:
            with step("loader" if self.isa == "x86_64" else f"loader for {self.isa}"):
                if not self.mutants:
                    _build(repo, into, self.isa)
                    return
                with tempfile.TemporaryDirectory(prefix="rem-mutants-") as folder:
                    patched_copy(repo, _named(EVERY), loader_mutants(repo).patches, Path(folder))
                    _build(Path(folder), into, self.isa)

        kind = "loader" if self.isa == "x86_64" else f"loader-{self.isa}"
        return site.product(kind, loader_key(self.mutants, self.isa), build) / TARGETS[self.isa][1]


def _build(root: Path, into: Path, isa: IsaName) -> None:
    argv: list[str | Path] = ["make", "-C", root / "loader", TARGETS[isa][0], f"OUT={into}"]
    stream(argv, log=cache_dir() / "logs" / "loader.log", what="building the loader")

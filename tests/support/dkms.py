# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DKMS with folders of its own instead of the host's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.run import Done, run
from lab.setup.products import Group, Packages, need
from lab.setup.stock_headers import StockHeaders


@dataclass(frozen=True)
class Dkms:
    """One package, whose sources are in PLACE/usr/src as its name and version say."""

    place: Path
    package: str
    version: str

    def __post_init__(self) -> None:
        need(Packages((Group.COMPILER, Group.MODULES, Group.TESTS)))
        self._tree.mkdir()
        self._call("add")

    @property
    def _tree(self) -> Path:
        return self.place / "tree"

    def _call(self, verb: str, *words: str | Path, check: bool = True) -> Done:
        of = ("-m", self.package, "-v", self.version)
        folders = ("--sourcetree", self.place / "usr/src", "--dkmstree", self._tree)
        return run(["dkms", verb, *of, *folders, *words], check=check)

    def build(self) -> dict[str, Path]:
        """For Debian's own kernel: the modules by name."""
        words = ("-k", stock_kernel(), "--kernelsourcedir", need(StockHeaders()).folder)
        self._call("build", *words)
        assert "built" in run(["dkms", "status", "--dkmstree", self._tree]).stdout
        return dict(self._modules())

    def _modules(self) -> Iterator[tuple[str, Path]]:
        for path in self._tree.rglob("module/*.ko*"):
            yield path.name.split(".")[0], path

    def refusal(self, kernel: str) -> str:
        """What it says of a kernel that the package is not for; nothing if it builds."""
        done = self._call("build", "-k", kernel, check=False)
        return "" if done.ok else done.stdout + done.stderr


def stock_kernel() -> str:
    """The version of that kernel, as its modules have it."""
    return f"{need(StockHeaders()).version}-amd64"


def kernel_of(module: Path) -> str:
    """The version of the kernel that a module is for."""
    return run(["modinfo", "-F", "vermagic", module]).stdout.split()[0]

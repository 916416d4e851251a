# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OFF2F: the module for a kernel, the tool for the guest, and test programs.

    product   CACHE/off2f/KEY   binfmt_off2f.ko, off2f (static), and programs of off2f/guest

The modules' sources are copied into one folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.paths import repo_dir
from lab.progress import step
from lab.run import run
from lab.setup import modules
from lab.setup.cargo import CargoPart
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.modules import build_modules
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.patch_series import Series, add_series, read_series
from lab.setup.stock_headers import StockHeaders

MODULE = "binfmt_off2f"
FORMATS = ("rem_image.h", "off2f.h")


@dataclass(frozen=True)
class Off2f:
    """Files that a guest needs to run programs of two files."""

    folder: Path

    @property
    def module(self) -> Path:
        return self.folder / f"{MODULE}.ko"


@dataclass(frozen=True)
class Off2fTool(CargoPart):
    """The program `off2f`, static: for this machine and for the guest."""

    kind = "off2f-tool"
    crate = "off2f"
    file = "off2f"
    target = "x86_64-unknown-linux-gnu"
    flags = "-C target-feature=+crt-static"


@dataclass(frozen=True)
class Off2fModule(Part[Off2f]):
    """For the kernel of this checkout, a *variant* of it, or Debian's own 6.12 (*stock*).

    *mutants*: with the planted bugs of off2f/mutants (`insmod binfmt_off2f.ko mutant=NAME`).
    """

    stock: bool = False
    variant: str | None = None
    mutants: bool = False

    groups = (Group.COMPILER, Group.KERNEL, Group.MODULES)

    def requires(self) -> tuple[Part[Any]]:
        return (StockHeaders() if self.stock else KernelHeaders(self.variant),)

    def make(self, site: Site) -> Off2f:
        if self.stock:
            stock = site[StockHeaders()]
            return _make(site, stock.folder, stock.version, self.mutants)
        headers = site[KernelHeaders(self.variant)]
        return _make(site, headers, headers.name, self.mutants)


def series() -> Series:
    """The planted bugs of the module, and of the library."""
    return read_series(repo_dir() / "off2f" / "mutants")


def sources() -> Iterator[Path]:
    """Yield the module's sources."""
    repo = repo_dir()
    yield from sorted(p for p in (repo / "off2f" / "kernel").iterdir() if p.is_file())
    yield from (repo / "format" / name for name in FORMATS)


def _make(site: Site, headers: Path, kernel_name: str, mutants: bool) -> Off2f:
    inputs = Inputs("off2f").add("kernel", kernel_name).add("gcc", tool_version("gcc"))
    if mutants:
        add_series(inputs, series())
    programs = sorted((repo_dir() / "off2f" / "guest").glob("*.c*"))
    library = sorted((repo_dir() / "off2f" / "lib").iterdir())
    headers_of_pm = sorted((repo_dir() / "pm" / "include").iterdir())
    for path in (
        *sources(),
        *programs,
        *library,
        *headers_of_pm,
        Path(__file__),
        Path(modules.__file__),
    ):
        inputs.add_path(path, path.name)

    def make(into: Path) -> None:
        with step(f"off2f: the module for {kernel_name}"):
            patches = series().patches if mutants else ()
            build_modules(headers, into, sources(), patches, [MODULE])
        with step("off2f: test programs"):
            for source in programs:
                _build_program(source, into)

    return Off2f(site.product("off2f", inputs.key(), make))


def _build_program(source: Path, into: Path) -> None:
    """Build a program. A line `// build: ...` has compiler options, or names our library."""
    compiler = "g++" if source.suffix == ".cc" else "gcc"
    words: list[str] = []
    for line in source.read_text(encoding="utf-8").splitlines():
        if line.startswith("// build:"):
            words = line.removeprefix("// build:").split()
    repo = repo_dir()
    include: list[str | Path] = ["-I", repo / "off2f" / "lib", "-I", repo / "pm" / "include"]
    if "nvm_mapping" in words:
        words = [str(repo / "off2f" / "lib" / "nvm_mapping.c")]
    flags: list[str | Path] = ["-O2", "-Wall", "-Wextra", "-Werror", *include]
    run([compiler, *flags, source, "-o", into / source.stem, *words])

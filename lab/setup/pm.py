# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The persistent memory service: modules for a kernel, libpm and pmadmin.

    product   CACHE/pm/KEY   pmcore.ko, pmbc.ko, pmramd.ko, pmadmin (static), libpm.so.1, libpm.a

The modules' sources are copied into one folder, as by dkms.conf.
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

MODULES = ("pmcore", "pmbc", "pmramd")
TEST_MODULES = ("pmstray",)
FOLDERS = ("kernel", "core", "include", "lib", "admin")
FORMATS = ("rem_image.h", "rem_pm.h", "rem_pm_block.h")
GUEST_PROGRAMS = {"pm-bench.c": "pm-bench", "pm-db.c": "pm-db", "work.c": "pm-work"}
USER_FLAGS = ("-std=gnu17", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")


@dataclass(frozen=True)
class PmProduct:
    """Files that a guest needs for persistent memory."""

    folder: Path

    @property
    def modules(self) -> list[Path]:
        """In the order in which they are loaded."""
        return [self.folder / f"{name}.ko" for name in MODULES]

    @property
    def test_modules(self) -> list[Path]:
        return [self.folder / f"{name}.ko" for name in TEST_MODULES]

    @property
    def pmadmin(self) -> Path:
        return self.folder / "pmadmin"


@dataclass(frozen=True)
class Pm(Part[PmProduct]):
    """For the kernel of this checkout, a *variant* of it, or Debian's own 6.12 (*stock*).

    *mutants*: with the planted bugs of pm/mutants (`insmod pmcore mutant=NAME`).
    """

    mutants: bool = False
    variant: str | None = None
    stock: bool = False

    groups = (Group.COMPILER, Group.KERNEL, Group.MODULES)

    def requires(self) -> tuple[Part[Any]]:
        return (StockHeaders() if self.stock else KernelHeaders(self.variant),)

    def make(self, site: Site) -> PmProduct:
        if self.stock:
            stock = site[StockHeaders()]
            return _make(site, stock.folder, stock.version, self.mutants)
        headers = site[KernelHeaders(self.variant)]
        return _make(site, headers, headers.name, self.mutants)


@dataclass(frozen=True)
class PmJudge(CargoPart):
    """The program that checks what cuts of recorded guests may leave of a region."""

    kind = "pm-judge"
    crate = "pm-judge"
    file = "pm-judge"
    more = ("pm/core", "pm/test/crc32c.c")


def series() -> Series:
    """The planted bugs of the core."""
    return read_series(repo_dir() / "pm" / "mutants")


def sources() -> Iterator[Path]:
    """The files that are compiled."""
    repo = repo_dir()
    for folder in FOLDERS:
        yield from sorted(p for p in (repo / "pm" / folder).iterdir() if p.is_file())
    yield from (repo / "format" / name for name in FORMATS)
    yield repo / "pm" / "init" / "pminit.h"


def programs() -> list[Path]:
    """Return programs of tests and figures, for the guest."""
    guest, campaign = (repo_dir() / "pm" / name for name in ("guest", "campaign"))
    return [guest / "pm-bench.c", guest / "pm-db.c", campaign / "work.c", campaign / "promise.h"]


def _make(site: Site, headers: Path, kernel_name: str, mutants: bool) -> PmProduct:
    inputs = Inputs("pm").add("kernel", kernel_name).add("gcc", tool_version("gcc"))
    if mutants:
        add_series(inputs, series())
    for path in (*sources(), *programs(), Path(__file__), Path(modules.__file__)):
        inputs.add_path(path, path.name)

    def make(into: Path) -> None:
        with step(f"pm: modules for {kernel_name}"):
            rooms = ("kernel", "core", "include", "format", "init")
            of_modules = [path for path in sources() if path.parent.name in rooms]
            patches = series().patches if mutants else ()
            names = (*MODULES, *TEST_MODULES)
            build_modules(headers, into, of_modules, patches, names, ["PM_TESTS=m"])
        with step("pm: libpm and pmadmin"):
            _build_programs(into)

    return PmProduct(site.product("pm", inputs.key(), make))


def _build_programs(into: Path) -> None:
    pm = repo_dir() / "pm"
    library = sorted((pm / "lib").glob("*.c"))
    flags: list[str | Path] = [*USER_FLAGS, "-I", pm / "include", "-I", pm / "lib"]
    script = f"-Wl,--version-script={pm / 'lib' / 'libpm.map'}"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libpm.so.1", script]
    run(["gcc", *flags, *shared, "-o", into / "libpm.so.1", *library], what="building libpm")
    for path in library:
        run(["gcc", *flags, "-c", "-o", into / f"{path.stem}.o", path], what="building libpm")
    objects = sorted(into.glob("*.o"))
    run(["ar", "rcsD", into / "libpm.a", *objects])
    for path in objects:
        path.unlink()
    admin = sorted((pm / "admin").glob("*.c"))
    run(
        ["gcc", *flags, "-static", "-o", into / "pmadmin", *admin, into / "libpm.a"],
        what="building pmadmin",
    )
    for source in programs():
        if source.suffix == ".c":
            name = GUEST_PROGRAMS[source.name]
            run(
                ["gcc", *flags, "-static", "-o", into / name, source, into / "libpm.a"],
                what=f"building {name}",
            )

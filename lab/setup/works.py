# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs of the classes of LightPC's workloads, for a guest (guest/works).

    CACHE/hypre/KEY       libHYPRE.a and its headers, from Debian's source, without MPI
    CACHE/works-debian/KEY  Debian's packages of other libraries, unpacked; nothing is installed
    CACHE/works/KEY       the programs, static

Debian's own libHYPRE needs MPI, whose start in a guest takes longer than what is to be measured.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import run, stream
from lab.setup.apt import apt_versions_of, newest
from lab.setup.fetch import unpack, unpack_source
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

HYPRE_PACKAGE = "libhypre-dev"  # of the source `hypre`, with the same version
HYPRE_OPTIONS = ("--without-MPI", "--with-openmp", "--disable-fortran", "CFLAGS=-O2 -fopenmp")
# What BoomerAMG is of: without the structured grids' solvers.
HYPRE_PARTS = (
    "blas", "lapack", "utilities", "multivector", "krylov", "seq_mv", "parcsr_mv",
    "parcsr_block_mv", "distributed_matrix", "matrix_matrix", "IJ_mv", "distributed_ls",
    "parcsr_ls",
)  # fmt: skip
# LEMON is headers; GetFEM refers to all others.
LIBRARIES = (
    "liblemon-dev",
    "libgetfem-dev",
    "libgmm-dev",
    "libsuperlu-dev",
    "libqhull-dev",
    "libblas-dev",
    "liblapack-dev",
)
SOURCES = ("guest/works", "guest/programs/check.c", "guest/programs/check.h")


def _newest(packages: list[str]) -> dict[str, str]:
    """The newest version of each that apt offers."""
    found = {name: newest(versions) for name, versions in apt_versions_of(packages).items()}
    for name, version in found.items():
        if not version:
            raise InfraError(f"apt offers no {name}: run `apt-get update`")
    return found


def _log() -> Path:
    return cache_dir() / "logs" / "works.log"


@dataclass(frozen=True)
class Hypre(Part[Path]):
    """A folder with `libHYPRE.a` and `include`."""

    groups = (Group.COMPILER, Group.SOURCES, Group.WORKS)

    def make(self, site: Site) -> Path:
        version = _newest([HYPRE_PACKAGE])[HYPRE_PACKAGE]
        inputs = Inputs("hypre").add("version", version).add("gcc", tool_version("gcc"))
        inputs.add("options", repr((HYPRE_OPTIONS, HYPRE_PARTS)))
        return site.product("hypre", inputs.key(), lambda into: _build_hypre(version, into))


def _build_hypre(version: str, into: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="hypre-", dir=cache_dir()) as scratch,
        step(f"hypre {version}"),
    ):
        source = unpack_source("hypre", version, Path(scratch)) / "src"
        stream(["./configure", *HYPRE_OPTIONS], cwd=source, log=_log(), what="configuring hypre")
        argv = ["make", f"-j{os.cpu_count() or 1}", f"HYPRE_DIRS={' '.join(HYPRE_PARTS)}"]
        stream(argv, cwd=source, log=_log(), what="compiling hypre")
        objects = sorted(path for path in source.rglob("*") if path.suffix in (".o", ".obj"))
        run(["ar", "rcs", into / "libHYPRE.a", *objects], what="archiving hypre")
        shutil.copytree(source / "hypre" / "include", into / "include")


@dataclass(frozen=True)
class WorksLibraries(Part[Path]):
    """A folder with the files of LIBRARIES, and the run-time library of the compiler's Fortran."""

    groups = (Group.COMPILER,)

    def make(self, site: Site) -> Path:
        major = tool_version("gcc").split()[-1].partition(".")[0]
        names = [*LIBRARIES, f"libgfortran-{major}-dev"]
        inputs = Inputs("works-debian")
        for name, version in _newest(names).items():
            inputs.add(name, version)

        def build(into: Path) -> None:
            with step("libraries of LightPC's workloads"):
                unpack("libraries of LightPC's workloads", names, into)

        return site.product("works-debian", inputs.key(), build)


@dataclass(frozen=True)
class Works(Part[Path]):
    """The folder of the programs: static, for any x86-64 Linux."""

    groups = (Group.COMPILER, Group.SOURCES, Group.WORKS)

    def requires(self) -> tuple[Part[Any], ...]:
        return (Hypre(), WorksLibraries())

    def make(self, site: Site) -> Path:
        hypre, debian = site[Hypre()], site[WorksLibraries()]
        inputs = Inputs("works").add("gcc", tool_version("gcc")).add("g++", tool_version("g++"))
        inputs.add("hypre", hypre.name).add("debian", debian.name)
        for name in SOURCES:
            inputs.add_path(repo_dir() / name, name)

        def build(into: Path) -> None:
            argv: list[str | Path] = ["make", "-C", "guest/works", f"OUT={into}"]
            with step("programs of LightPC's workloads"):
                stream([*argv, f"HYPRE={hypre}", f"DEBIAN={debian}"], cwd=repo_dir(), log=_log(),
                       what="compiling guest/works")  # fmt: skip
            for left in into.glob("*.o"):
                left.unlink()

        return site.product("works", inputs.key(), build)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The persistent memory service, built: modules against a kernel, libpm and pmadmin.

    product   CACHE/pm/KEY   pmcore.ko, pmbc.ko, pmramd.ko, pmadmin (static), libpm.so.1, libpm.a
    product   CACHE/debian-headers/VERSION   Debian's headers of its 6.12, unpacked, not installed

The modules' sources are laid side by side in one folder, as dkms.conf does it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import run, stream
from lab.setup import cache, kernel
from lab.setup.fetch import unpack
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.kernel_headers import ensure_kernel_headers
from lab.setup.packages import newest
from lab.setup.patch_series import Patch, Series, patched_copy, read_series
from lab.setup.plugin import cargo_env
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

MODULES = ("pmcore", "pmbc", "pmramd")
TEST_MODULES = ("pmstray",)
FOLDERS = ("kernel", "core", "include", "lib", "admin")
FORMATS = ("rem_image.h", "rem_pm.h", "rem_pm_block.h")
JUDGE = "pm-judge"
# What it is made of.
JUDGE_SOURCES = (
    "Cargo.toml",
    "Cargo.lock",
    "format",
    "machine/crash-states",
    "machine/recording",
    "pm/campaign",
    "pm/core",
    "pm/test/crc32c.c",
)
GUEST_PROGRAMS = {"pm-bench.c": "pm-bench", "work.c": "pm-work"}
USER_FLAGS = ("-std=gnu17", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
STOCK = re.compile(r"^linux-headers-(6\.12\.\d+\+deb\d+)-amd64$")


@dataclass(frozen=True)
class PmProduct:
    """What a guest needs to have persistent memory."""

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


def ensure_pm(progress: Progress, mutants: bool = False, variant: str | None = None) -> PmProduct:
    """For the kernel of this checkout, or a *variant* of it.

    *mutants*: with the planted bugs of pm/mutants (`insmod pmcore mutant=NAME`).
    """
    headers = ensure_kernel_headers(progress, variant)
    return _ensure(progress, headers, headers.name, mutants)


def ensure_pm_for_debian(progress: Progress) -> PmProduct:
    """For Debian's own 6.12."""
    version, headers = debian_headers()
    return _ensure(progress, headers, version)


def debian_headers() -> tuple[str, Path]:
    """The newest 6.12 kernel of Debian's that this machine's apt sources have, and its headers."""
    version = stock_version()
    headers = cache.product("debian-headers", version, lambda into: _unpack(version, into))
    return version, headers / "usr" / "src" / f"linux-headers-{version}-amd64"


def stock_version() -> str:
    names = run(["apt-cache", "pkgnames", "linux-headers-6.12."]).stdout.split()
    found = [match[1] for match in map(STOCK.match, names) if match]
    if not found:
        raise InfraError(
            "apt has no linux-headers-6.12.*-amd64: is the release's security suite or its "
            "backports among the machine's sources?"
        )
    return newest(found)


def _unpack(version: str, into: Path) -> None:
    names = [f"linux-headers-{version}-amd64", f"linux-headers-{version}-common"]
    names.append(f"linux-kbuild-{version}")
    unpack("Debian's headers", names, into)
    # Only this file names the place where the packages expect to be.
    makefile = into / "usr" / "src" / f"linux-headers-{version}-amd64" / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    common = f"../linux-headers-{version}-common"
    place = f"$(dir $(realpath $(lastword $(MAKEFILE_LIST)))){common}/Makefile"
    makefile.write_text(re.sub(r"^include /usr/src/.*$", f"include {place}", text, flags=re.M))


def series() -> Series:
    """The planted bugs of the core."""
    return read_series(repo_dir() / "pm" / "mutants")


def ensure_pm_judge(progress: Progress) -> Path:
    """`pm-judge` of this checkout, which judges the recordings of `rem campaign --pm`."""
    inputs = Inputs("pm-judge").add("rustc", ensure_rust(progress))
    for name in JUDGE_SOURCES:
        inputs.add_path(repo_dir() / name, name)

    def make(into: Path) -> None:
        argv = ["cargo", "build", "--release", "--locked", "-p", JUDGE]
        log = cache_dir() / "logs" / "pm-judge.log"
        with progress.step("pm-judge"):
            stream(argv, cwd=repo_dir(), env=cargo_env(), log=log, what="building pm-judge")
        shutil.copy(Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / JUDGE, into / JUDGE)

    return cache.product("pm-judge", inputs.key(), make) / JUDGE


def sources() -> Iterator[Path]:
    """All that is compiled."""
    repo = repo_dir()
    for folder in FOLDERS:
        yield from sorted(p for p in (repo / "pm" / folder).iterdir() if p.is_file())
    yield from (repo / "format" / name for name in FORMATS)
    yield repo / "pm" / "init" / "pminit.h"


def programs() -> list[Path]:
    """Of tests and figures, for the guest."""
    pm = repo_dir() / "pm"
    campaign = pm / "campaign"
    return [pm / "guest" / "pm-bench.c", campaign / "work.c", campaign / "promise.h"]


def _ensure(
    progress: Progress, headers: Path, kernel_name: str, mutants: bool = False
) -> PmProduct:
    inputs = Inputs("pm").add("kernel", kernel_name).add("gcc", tool_version("gcc"))
    if mutants:
        inputs.add_path(series().folder, "mutants")
    for path in (*sources(), *programs(), Path(__file__)):
        inputs.add_path(path, path.name)

    def make(into: Path) -> None:
        with progress.step(f"pm: modules for {kernel_name}"):
            _build_modules(headers, into, series().patches if mutants else ())
        with progress.step("pm: libpm and pmadmin"):
            _build_programs(into)

    return PmProduct(cache.product("pm", inputs.key(), make))


def _build_modules(headers: Path, into: Path, patches: Sequence[Patch]) -> None:
    with (
        tempfile.TemporaryDirectory(dir=into) as folder,
        tempfile.TemporaryDirectory(dir=into) as copy,
    ):
        patched_copy(repo_dir(), ["pm", "format"], patches, Path(copy))
        for path in sources():
            if path.parent.name in ("kernel", "core", "include", "format", "init"):
                shutil.copy(copy / path.relative_to(repo_dir()), folder)
        argv = ["nice", "make", "-C", str(headers), f"M={folder}", "CC=gcc", "W=1", "PM_TESTS=m"]
        # A warning is an error: on both kernels there is none.
        stream(
            [*argv, "KCFLAGS=-Werror", "modules"],
            log=cache_dir() / "logs" / "pm.log",
            env=kernel.make_env(),
            what="building the modules of pm",
        )
        for name in (*MODULES, *TEST_MODULES):
            shutil.copy(Path(folder) / f"{name}.ko", into / f"{name}.ko")


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

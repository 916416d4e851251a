# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OFF2F, built: the module for a kernel, the tool for the guest, and programs that try it.

    product   CACHE/off2f/KEY   binfmt_off2f.ko, off2f (static), and programs of off2f/guest

The modules' sources are laid side by side in one folder.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import run, stream
from lab.setup import cache, kernel
from lab.setup.host import explain, tool_version
from lab.setup.inputs import Inputs
from lab.setup.kernel_headers import ensure_kernel_headers
from lab.setup.plugin import cargo_env
from lab.setup.pm import debian_headers
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

MODULE = "binfmt_off2f"
FORMATS = ("rem_image.h", "off2f.h")
TARGET = "x86_64-unknown-linux-gnu"


@dataclass(frozen=True)
class Off2f:
    """What a guest needs to run programs of two files."""

    folder: Path

    @property
    def module(self) -> Path:
        return self.folder / f"{MODULE}.ko"


def ensure_tool(progress: Progress) -> Path:
    """The program `off2f`, static: for this machine and for the guest."""
    repo = repo_dir()
    inputs = Inputs("off2f-tool").add("rustc", ensure_rust(progress))
    for name in ("Cargo.toml", "Cargo.lock", "format", "off2f/Cargo.toml", "off2f/src"):
        inputs.add_path(repo / name, name)

    def make(into: Path) -> None:
        with progress.step("off2f: the tool"):
            try:
                _build_tool(into)
            except InfraError as error:
                raise explain(error, "building off2f") from error

    return cache.product("off2f-tool", inputs.key(), make) / "off2f"


def ensure_off2f(progress: Progress) -> Off2f:
    """For the kernel of this checkout."""
    headers = ensure_kernel_headers(progress)
    return _ensure(progress, headers, headers.name)


def ensure_off2f_for_debian(progress: Progress) -> Off2f:
    """For Debian's own 6.12."""
    version, headers = debian_headers()
    return _ensure(progress, headers, version)


def sources() -> Iterator[Path]:
    """All that the module is made of."""
    repo = repo_dir()
    yield from sorted(p for p in (repo / "off2f" / "kernel").iterdir() if p.is_file())
    yield from (repo / "format" / name for name in FORMATS)


def _ensure(progress: Progress, headers: Path, kernel_name: str) -> Off2f:
    inputs = Inputs("off2f").add("kernel", kernel_name).add("gcc", tool_version("gcc"))
    programs = sorted((repo_dir() / "off2f" / "guest").glob("*.c*"))
    library = sorted((repo_dir() / "off2f" / "lib").iterdir())
    headers_of_pm = sorted((repo_dir() / "pm" / "include").iterdir())
    for path in (*sources(), *programs, *library, *headers_of_pm, Path(__file__)):
        inputs.add_path(path, path.name)

    def make(into: Path) -> None:
        with progress.step(f"off2f: the module for {kernel_name}"):
            _build_module(headers, into)
        with progress.step("off2f: programs that try it"):
            for source in programs:
                _build_program(source, into)

    return Off2f(cache.product("off2f", inputs.key(), make))


def _build_tool(into: Path) -> None:
    argv = ["cargo", "build", "--release", "--locked", "-p", "off2f", "--target", TARGET]
    env = {**cargo_env(), "RUSTFLAGS": "-C target-feature=+crt-static"}
    log = cache_dir() / "logs" / "off2f.log"
    stream(argv, cwd=repo_dir(), env=env, log=log, what="building off2f")
    built = Path(env["CARGO_TARGET_DIR"]) / TARGET / "release" / "off2f"
    shutil.copy(built, into / "off2f")


def _build_module(headers: Path, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as folder:
        for path in sources():
            shutil.copy(path, folder)
        argv = ["nice", "make", "-C", str(headers), f"M={folder}", "CC=gcc", "W=1"]
        stream(
            [*argv, "KCFLAGS=-Werror", "modules"],
            log=cache_dir() / "logs" / "off2f.log",
            env=kernel.make_env(),
            what="building binfmt_off2f",
        )
        shutil.copy(Path(folder) / f"{MODULE}.ko", into / f"{MODULE}.ko")


def _build_program(source: Path, into: Path) -> None:
    """A line `// build: ...` gives more words to the compiler, or names our library."""
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

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The heap's programs: `nvheap`, its benchmark, and the peer that is measured beside it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup import cache
from lab.setup.host import explain
from lab.setup.inputs import Inputs
from lab.setup.plugin import cargo_env
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

BENCH = "nvheap-bench"
PEER = "libpeer.so"
# What the programs are made of besides the heap and the formats.
CRATES = ("machine/crash-states", "machine/planted", "machine/recording")


@dataclass(frozen=True)
class HeapBench:
    bench: Path
    peer: Path


def heap_key(compiler: str) -> str:
    repo = repo_dir()
    inputs = Inputs("heap").add("rustc", compiler)
    for name in ("Cargo.toml", "Cargo.lock", "format", "heap", *CRATES):
        inputs.add_path(repo / name, name)
    return inputs.key()


def ensure_heap_bench(progress: Progress) -> HeapBench:
    """The benchmark of this checkout, and libpmemobj behind the same functions."""
    key = heap_key(ensure_rust(progress))

    def make(into: Path) -> None:
        with progress.step("heap benchmark"):
            try:
                _build(into)
            except InfraError as error:
                raise explain(error, "building the heap's benchmark") from error

    folder = cache.product("heap", key, make)
    return HeapBench(folder / BENCH, folder / PEER)


def ensure_heap_mutants(progress: Progress) -> Path:
    """The benchmark with the planted bugs of heap/mutants."""
    key = heap_key(ensure_rust(progress))

    def make(into: Path) -> None:
        with progress.step("heap benchmark with planted bugs"):
            try:
                shutil.copy(_cargo_build(BENCH, BENCH, "mutants"), into / BENCH)
            except InfraError as error:
                raise explain(error, "building the heap with planted bugs") from error

    return cache.product("heap-mutants", key, make) / BENCH


def build_c_library() -> Path:
    """Cargo itself knows whether something is to be done."""
    return _cargo_build("nvheap-c", "libnvheap.a")


def _cargo_build(package: str, product: str, features: str = "") -> Path:
    argv = ["cargo", "build", "--release", "--locked", "-p", package, "--features", features]
    stream(argv, cwd=repo_dir(), env=cargo_env(), log=_log(), what=f"building {package}")
    return Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / product


def _log() -> Path:
    return cache_dir() / "logs" / "heap.log"


def _build(into: Path) -> None:
    repo = repo_dir()
    shutil.copy(_cargo_build(BENCH, BENCH), into / BENCH)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    peer = repo / "heap" / "bench" / "peer.c"
    stream(
        ["gcc", *flags, "-o", into / PEER, peer, "-lpmemobj"],
        cwd=repo,
        log=_log(),
        what="building the peer",
    )

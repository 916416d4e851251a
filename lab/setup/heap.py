# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The heap's programs: its benchmark, the peer for comparison, and its C library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.cargo import CargoPart
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

PEER = "libpeer.so"


@dataclass(frozen=True)
class HeapBench:
    """The programs that measure the heap and its peer."""

    bench: Path
    peer: Path


@dataclass(frozen=True)
class HeapProgram(CargoPart):
    """`nvheap-bench` of this checkout: it measures, checks and works on a heap."""

    kind = "heap-bench"
    crate = "nvheap-bench"
    file = "nvheap-bench"
    profile = "unwind"  # panics of transactions are among what it checks


@dataclass(frozen=True)
class HeapMutants(HeapProgram):
    """The same with the planted bugs of heap/mutants."""

    kind = "heap-mutants"
    features = "mutants"


@dataclass(frozen=True)
class HeapLibrary(CargoPart):
    """libnvheap.a, the heap for programs in C."""

    kind = "heap-c"
    crate = "nvheap-c"
    file = "libnvheap.a"


@dataclass(frozen=True)
class HeapPeer(Part[Path]):
    """The benchmark's functions on libpmemobj."""

    groups = (Group.COMPILER, Group.HEAP_PEER)

    def make(self, site: Site) -> Path:
        source = repo_dir() / "heap" / "bench" / "peer.c"
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]

        def build(into: Path) -> None:
            argv: list[str | Path] = ["gcc", *flags, "-o", into / PEER, source, "-lpmemobj"]
            with step("the heap's peer"):
                log = cache_dir() / "logs" / "heap.log"
                stream(argv, cwd=repo_dir(), log=log, what="building the heap's peer")

        inputs = Inputs("heap-peer").add("gcc", tool_version("gcc")).add("flags", " ".join(flags))
        return site.product("heap-peer", inputs.add_path(source, "peer.c").key(), build) / PEER


@dataclass(frozen=True)
class HeapWithPeer(Part[HeapBench]):
    """The program and the peer."""

    def requires(self) -> tuple[Part[Path], Part[Path]]:
        return HeapProgram(), HeapPeer()

    def make(self, site: Site) -> HeapBench:
        return HeapBench(site[HeapProgram()], site[HeapPeer()])

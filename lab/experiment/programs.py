# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC's workloads on machines with different memories, for experiments.

The prototype's eight cores, whose guest time follows a memory controller (`rem run --memory`). Each
program runs on one machine twice; the second run is the region of interest, by the guest's clock
and by counters that are read before and after it, outside the guest. The kernel's part is in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.experiment.kept import Name, kept
from lab.experiment.run import Context
from lab.experiment.workloads import (
    CI,
    CORES,
    FULL,
    PACKAGES,
    PREPARE,
    PROGRAMS,
    Program,
    sized,
)
from lab.guest_root.spec import RootSpec
from lab.machine.machine import Machine
from lab.machine.memories import ASIC_CORES
from lab.setup.products import Kernel, Plugin, Root, need_all
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on, served_and_cached
from lab.testbed.region import WRITE_BACK, run_region
from lab.verdict import BrokenError

RUN_LIMIT_S = 600.0
AT_ONCE = 2
PROTOTYPE = f"{ASIC_CORES}:mhz=400"  # what the paper has measured (Table I, VI)


@dataclass(frozen=True)
class Platform:
    memory: str
    caches: str = PROTOTYPE


# LightPC's three platforms, and LightPC-B where all that the paper does not say of it is slow.
LEGACY, OURS, B, SLOW_B = "LegacyPC", "LightPC", "LightPC-B", "LightPC-B, one queue, rank layout"
MEMORIES = {
    LEGACY: Platform("dram"),
    OURS: Platform("ocpmem"),
    B: Platform("ocpmem-b"),
    SLOW_B: Platform("ocpmem-b:order=module:layout=rank"),
}
# LightPC with other caches, of data and of instructions.
CACHES = {
    f"{kib} KiB": Platform("ocpmem", f"{PROTOTYPE}:l1_kib={kib}:l1i_kib={kib}") for kib in (4, 64)
}
# LightPC whose instructions are not read of memory.
NO_FETCHES = "no fetches"
FETCHES = {NO_FETCHES: Platform("ocpmem", f"{PROTOTYPE}:no-fetches")}
# Faster cores: those of the prototype as an ASIC, and SonicBOOM's largest configuration.
LARGEST = f"{ASIC_CORES}:width=4:window=128:store_buffer=32:fill_buffers=8"
FASTER = {
    f"{name}, {core}": Platform(MEMORIES[name].memory, caches)
    for core, caches in (("1.6 GHz", ASIC_CORES), ("1.6 GHz, largest core", LARGEST))
    for name in (OURS, SLOW_B)
}
FASTER_B = tuple(name for name in FASTER if name.startswith(SLOW_B))
ALL = MEMORIES | CACHES | FASTER | FETCHES
# Whose bars stand beside LegacyPC, which is 1.
BESIDE_LEGACY = (OURS, B, SLOW_B)
# A command that does nothing: what its start and its shell take is in every program.
NOTHING = "nothing"
ENERGY_PJ = ("background_pj", "refresh_pj", "activate_pj", "read_pj", "write_pj")
COUNTED = (
    "guest_ns", "reads", "writes", "read_ns", "row_writes", "rebuilt_reads", "blocked_reads",
    *ENERGY_PJ,
)  # fmt: skip
# `swept`: lines that were changed without a store, as by a disk, and written in the region.
CACHED = (
    "cpu_loads", "cpu_stores", "first_level_misses", "store_misses", "fetch_misses", "swept",
)  # fmt: skip


def _counters(machine: Machine) -> dict[str, int]:
    memory, caches = served_and_cached(machine)
    return {key: memory[key] for key in COUNTED} | {key: caches[key] for key in CACHED}


def in_region(machine: Machine, words: str, says: str = "") -> dict[str, int]:
    """Run a shell command, and return its time, its peak of memory and what the machine counted.

    BrokenError if it does not say that its result is right.
    """
    done = run_region(machine, words, lambda: _counters(machine), RUN_LIMIT_S)
    if done.code != 0 or says not in done.said:
        raise BrokenError("wrong-result", f"{words}: {done.code}: {done.said[-300:]!r}")
    return {"ns": done.ns, "peak_kib": done.peak_kib, **done.counted}


def _server_kib(machine: Machine, program: Program) -> int:
    """The most memory that the server has had."""
    status = f"/proc/$({program.server_pid})/status"
    command = f"sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\) kB/\\1/p' {status}"
    return int(machine.run_in_guest(command).stdout)


def run_programs(
    machine: Machine, names: Iterable[str], size: str
) -> Iterator[tuple[str, dict[str, int]]]:
    """Each of these programs, with the row that the counters give."""
    machine.run_in_guest(sized(PREPARE, size), limit_s=RUN_LIMIT_S)
    in_region(machine, "true")
    machine.run_in_guest(WRITE_BACK, limit_s=RUN_LIMIT_S)
    yield NOTHING, in_region(machine, "true")
    for name in names:
        program = PROGRAMS[name]
        machine.run_in_guest(program.first_words(size), limit_s=RUN_LIMIT_S)
        machine.run_in_guest(WRITE_BACK, limit_s=RUN_LIMIT_S)
        row = in_region(machine, program.words(size), program.says)
        if program.server_pid:
            row["peak_kib"] = max(row["peak_kib"], _server_kib(machine, program))
        yield name, row


def programs_root() -> Root:
    return Root(RootSpec(packages=PACKAGES, works=True))


def _run_all(platform: str, root: Path, size: str) -> dict[str, Any]:
    config = make_config(f"programs-{list(ALL).index(platform)}", CORES)
    config = replace(config, root=root, network="auto")
    on = ALL[platform]
    with booted_on(on.memory, config, on.caches) as machine:
        return dict(run_programs(machine, PROGRAMS, size))


def measured(it: Context, platforms: Iterable[str] = MEMORIES) -> dict[str, Any]:
    """Rows by platform and program: see in_region().

    Counters are read outside the guest, so their `guest_ns` is longer than `ns`.
    """
    size = CI if it.is_ci else FULL
    root = programs_root()
    built = need_all([Kernel(), Plugin(), root])
    work = repr((size, built[root]))
    keys = (built[Kernel()].key, built[Plugin()].parent.name)
    folder = it.out.parent / "programs"

    def file(name: str) -> Path:
        digest = hashlib.sha256((work + repr(ALL[name])).encode()).hexdigest()[:16]
        return folder / f"{list(ALL).index(name)}-{'-'.join((*keys, digest))}.json"

    return kept_at_once(
        {name: file(name) for name in platforms}, lambda name: _run_all(name, built[root], size)
    )


def kept_at_once(files: Mapping[Name, Path], run_one: Callable[[Name], Any]) -> dict[Name, Any]:
    """As kept(), where each name has a machine of its own, and AT_ONCE of them run at a time."""

    def measure(missing: list[Name]) -> Iterator[tuple[Name, Any]]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from zip(missing, pool.map(run_one, missing), strict=True)

    return kept(files, measure, run_one)


def ratios(raw: dict[str, Any], platform: str, over: str) -> dict[str, float]:
    """Times of each program on one platform over those on another."""
    return {name: raw[platform][name]["ns"] / raw[over][name]["ns"] for name in PROGRAMS}


def written(row: dict[str, int]) -> int:
    """Lines that the caches wrote, but those that were changed without a store."""
    return row["writes"] - row["swept"]


def per_write(row: dict[str, int]) -> float:
    return row["reads"] / max(1, written(row))


def beside(platform: str) -> str:
    """The LightPC with the cores of this LightPC-B."""
    return OURS + platform.removeprefix(SLOW_B) if platform.startswith(SLOW_B) else OURS


def draw_bars(
    figure: Any,
    of: Callable[[str, str], float],
    platforms: Sequence[str],
    label: str,
    paper: tuple[str, float],
) -> None:
    """A bar for each program on each platform, and a value of the paper's with its name."""
    axes = figure.subplots(1, 1)
    names, width = list(PROGRAMS), 0.8 / len(platforms)
    middle = (len(platforms) - 1) / 2
    for number, platform in enumerate(platforms):
        places = [index + (number - middle) * width for index in range(len(names))]
        axes.bar(places, [of(platform, name) for name in names], width, label=platform)
    axes.axhline(paper[1], color="black", linestyle=":", label=paper[0])
    axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7)
    axes.set(ylabel=label)
    axes.legend(frameon=False, fontsize=7)

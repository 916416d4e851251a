# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every cut of a guest in which persistent memory is worked with: `rem campaign --pm`.

A machine with volatile caches, main memory in DRAM and a region of NVRAM boots under a recorder.
Then, in one window after the other, the modules are loaded on a new region, a program does all
that can be done with segments and blocks (pm/campaign/work.c), and tells by a store what holds
after each. First with the modules as they are, then with each planted bug. `pm-judge` makes of
each window all that a cut may leave (pm/campaign/judge.c): this module only brings both together.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab import run
from lab.campaign.record import free_enough
from lab.errors import Exit, InfraError, RemError, UsageError
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.cut_points import attach_cut_points
from lab.machine.guest import GuestResult
from lab.machine.qemu import NVRAM_PHYS
from lab.messages import info
from lab.paths import cache_dir, repo_dir
from lab.result import Result
from lab.setup.pm import ensure_pm
from lab.setup.progress import Progress
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import install, sh, wait_up

PROFILE = "wsp-c5528"
REGION_BYTES = 8 << 20
SLOTS = 32  # each image is opened whole: a small table is quick
ROW_LIMIT_S = 300.0
JUDGE_LIMIT_S = 3600.0
PROMISE = "campaign-pm"  # in the heads of pm/mutants/*.patch
# How the program says that something is not as it should be; any other failure is no verdict.
WRONG = re.compile(r"pm-work: line (\d+): ")


@dataclass(frozen=True)
class Asked:
    """What to record, and how much of it to judge."""

    folder: Path
    name: str = "campaign-pm"
    seed: int = 1
    limit: int = 400  # images of one place, where there are more
    mutants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Window:
    """What came of one window of the recording."""

    mutant: str  # empty: none
    told: dict[str, Any]
    said: str = field(default="")  # by the program in the guest, where it ended early

    def __post_init__(self) -> None:
        """What the program said in the guest and what it stored are two ways to tell the same."""
        stored, said = int(self.told["broken"]), WRONG.match(self.said)
        if stored != (int(said[1]) if said else 0):
            raise InfraError(
                f"the window of {self.mutant or 'no planted bug'}: the program said"
                f" {self.said or 'nothing'!r}, but the recording has line {stored} of it"
            )

    @property
    def broken(self) -> str:
        """The first promise that a cut breaks, or what the program itself found."""
        return str(self.told["first"]) or self.said


def chosen(words: str) -> tuple[str, ...]:
    """What --mutants says: all, none, or names."""
    if words in {"all", "none"}:
        return tuple(mutants()) if words == "all" else ()
    names = tuple(words.split(","))
    for name in names:
        if name not in mutants():
            raise UsageError(f"--mutants {name}: choose all, none or {', '.join(mutants())}")
    return names


def region_phys(nvram_bytes: int) -> int:
    return NVRAM_PHYS + nvram_bytes - REGION_BYTES


@contextmanager
def recorded_guest(folder: Path, name: str) -> Iterator[Machine]:
    """Up, with a region and volatile caches, and recorded into *folder* until the power goes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    free_enough(folder)
    config = make_config(name, cpus=1, caches=PROFILE)
    phys = region_phys(config.nvram_bytes)
    config = replace(
        config,
        memtype="dram",
        cmdline_extra=f"memmap={REGION_BYTES >> 20}M!{phys:#x}",
        plugin=f"{config.plugin},record={folder}",
    )
    with (folder / "base.media").open("wb") as base:
        base.truncate(config.nvram_bytes)  # of a new machine: zeros
    with Machine.create(config, destroy_on_exit=True) as machine:
        info("campaign: a guest with a region boots, and is recorded")
        attach_cut_points(machine)
        machine.boot()
        wait_up(machine)
        yield machine
        machine.cut(UNANNOUNCED)


def record(asked: Asked) -> list[str]:
    """Make the recording; what the program said in each window, nothing where all was well."""
    said = []
    with recorded_guest(asked.folder, asked.name) as machine:
        _install(machine)
        for mutant in ("", *asked.mutants):
            said.append(_row(machine, asked, mutant))
            info(f"campaign: recorded {mutant or 'the modules as they are'}")
    return said


def _install(machine: Machine) -> None:
    install(machine)
    machine.guest.put(ensure_pm(Progress()).folder / "pm-work", "/root/pm-work")
    sh(machine, "mkdir -p /root/mutants")
    for module in ensure_pm(Progress(), mutants=True).modules:
        machine.guest.put(module, f"/root/mutants/{module.name}")


def _row(machine: Machine, asked: Asked, mutant: str) -> str:
    """One window."""
    folder = "/root/mutants" if mutant else "/root"
    # Planted once there is a region: making one is not what is cut here.
    size = f"bs=64k count={REGION_BYTES >> 16}"
    sh(machine, f"dd if=/dev/zero of=/dev/pmem0 {size} conv=fsync status=none")
    sh(machine, f"insmod {folder}/pmcore.ko device=/dev/pmem0 format=1 slots={SLOTS}")
    sh(machine, f"insmod {folder}/pmbc.ko scrub_blocks_per_s=0 && /root/pm-work begin")
    if mutant:
        sh(machine, f"echo {mutant} >/sys/module/pmcore/parameters/mutant")
    window(machine, True)
    done = machine.guest.run(f"/root/pm-work row {asked.seed}", check=False, limit_s=ROW_LIMIT_S)
    window(machine, False)
    said = verdict(done)
    if said and not mutant:
        raise RemError(f"the work in the guest has failed: {said}")
    sh(machine, "rmmod pmbc && rmmod pmcore")
    return said


def verdict(done: GuestResult) -> str:
    """What the program found wrong, or nothing. That it did not run to its end finds no bug."""
    said = done.stderr.strip()
    if done.ok:
        return ""
    if done.returncode != int(Exit.BROKEN) or not WRONG.match(said):
        raise InfraError(f"the work in the guest ended with exit {done.returncode}: {said}")
    return said


def window(machine: Machine, begins: bool) -> None:
    assert machine.qemu is not None
    assert machine.plugin is not None
    machine.qemu.qmp.execute("stop")
    machine.plugin.window(begins)
    machine.qemu.qmp.execute("cont")


def ensure_judge() -> Path:
    out = cache_dir() / "pm-test"
    argv = ["nice", "make", "-s", "-C", str(repo_dir() / "pm"), f"OUT={out}", "judge"]
    run.run(argv, what="building pm-judge")
    return out / "pm-judge"


def judge(asked: Asked, nvram_bytes: int) -> list[dict[str, Any]]:
    """What pm-judge makes of each window."""
    argv: list[str | Path] = [
        ensure_judge(),
        asked.folder,
        f"{region_phys(nvram_bytes):#x}",
        str(REGION_BYTES),
    ]
    argv += [str(asked.limit), str(asked.seed)]
    done = run.run(argv, what="judging cuts", timeout_s=JUDGE_LIMIT_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def campaign(asked: Asked) -> list[Window]:
    """Record and judge; the recording is kept where something is wrong with it."""
    said = record(asked)
    nvram_bytes = (asked.folder / "base.media").stat().st_size
    told = judge(asked, nvram_bytes)
    names = ("", *asked.mutants)
    if len(told) != len(names):
        raise RemError(f"{asked.folder}: {len(told)} windows of {len(names)} were judged")
    windows = [Window(*each) for each in zip(names, told, said, strict=True)]
    if not windows[0].broken and all(window.broken for window in windows[1:]):
        shutil.rmtree(asked.folder)
    return windows


def figures(windows: list[Window]) -> Result:
    """Violations are those of the modules as they are; a bug that nothing shows is missed."""
    result = Result("campaign-pm")
    plain, mutants = windows[0].told, windows[1:]
    for name in ("operations", "places", "images", "violations"):
        result.add(name, int(plain[name]), "", "counted")
    for window in windows:
        name = f"mutant {window.mutant}" if window.mutant else "the modules as they are"
        info(
            f"campaign: {name}: {window.broken or ('MISSED' if window.mutant else 'no violation')}"
        )
    missed = sum(not window.broken for window in mutants)
    result.add("mutants", len(mutants), "", "counted")
    result.add("mutants_missed", missed, "", "counted")
    result.ok = not windows[0].broken and not missed and plain["images"] > 0
    return result

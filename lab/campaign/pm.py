# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every cut of a guest in which persistent memory is worked with: `rem campaign --pm`.

A machine with volatile caches, main memory in DRAM and a region of NVRAM boots under a recorder.
Then, in one window after the other, the modules are loaded on a new region, a program does all
that can be done with segments and blocks (pm/campaign/work.c), and after each operation reports
by a store what a reader must now find. First with the modules as they are, then with each planted
bug (pm/mutants). `pm-judge` looks at all that a cut in a window may leave (pm/campaign/src): this
module only brings both together.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
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
from lab.result import Result
from lab.setup.patch_series import Patch
from lab.setup.pm import Pm, PmJudge, series
from lab.setup.products import need
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import install, sh, wait_up

PROFILE = "wsp-c5528"
REGION_BYTES = 8 << 20
SLOTS = 32  # each image is opened whole: a small table is quick
ROW_LIMIT_S = 300.0
JUDGE_LIMIT_S = 3600.0
PROMISE = "campaign-pm"  # in the heads of pm/mutants/*.patch
IN_THE_GUEST = "in-the-guest"  # the verdict of the program itself
# The program's message where something is not as it should be; any other failure is no verdict.
WRONG = re.compile(r"pm-work: line (\d+): ")


@dataclass(frozen=True)
class Asked:
    """What to record, and how much of it to judge."""

    folder: Path
    name: str = "campaign-pm"
    seed: int = 1
    limit: int = 400  # images of one place, where there are more
    mutants: tuple[str, ...] = ()


@cache
def mutants() -> dict[str, Patch]:
    """Planted bugs that a cut shows.

    The others of the series are bugs of what is done about damage, which pm/test/ does to media;
    a cut does none.
    """
    found = (patch for patch in series().mutants if verdicts(patch))
    return {patch.name: patch for patch in found}


def verdicts(patch: Patch) -> frozenset[str]:
    """The verdicts by which a bug is found here."""
    return frozenset(one.verdict for one in patch.violates if one.promise == PROMISE)


@dataclass(frozen=True)
class Window:
    """What came of one window of the recording."""

    mutant: str  # empty: none
    judged: dict[str, Any]
    message: str = ""  # of the program in the guest, where it ended early

    def __post_init__(self) -> None:
        """What the program printed in the guest and what it stored must be the same."""
        stored, printed = int(self.judged["broken"]), WRONG.match(self.message)
        if stored != (int(printed[1]) if printed else 0):
            raise InfraError(
                f"the window of {self.mutant or 'no planted bug'}: the program printed"
                f" {self.message or 'nothing'!r}, but the recording has line {stored} of it"
            )

    @property
    def broken(self) -> str:
        """The first promise that a cut breaks, or what the program itself found; or nothing."""
        if self.judged["verdict"]:
            return f"{self.judged['verdict']}: {self.judged['first']}"
        return f"{IN_THE_GUEST}: {self.message}" if self.message else ""

    @property
    def missed(self) -> bool:
        """Whether a planted bug was not found by a verdict of its own."""
        found = {self.judged["verdict"], IN_THE_GUEST if self.message else ""}
        return bool(self.mutant) and not found & verdicts(mutants()[self.mutant])


def chosen(words: str) -> tuple[str, ...]:
    """The bugs for a value of --mutants: all, none, or names."""
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
    """A guest with a region and volatile caches, recorded into *folder* until power fails."""
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
    """Make the recording; the program's message of each window, empty where all was well."""
    messages = []
    with recorded_guest(asked.folder, asked.name) as machine:
        _install(machine)
        for mutant in ("", *asked.mutants):
            messages.append(_row(machine, asked, mutant))
            info(f"campaign: recorded {mutant or 'the modules as they are'}")
    return messages


def _install(machine: Machine) -> None:
    install(machine)
    machine.guest.put(need(Pm()).folder / "pm-work", "/root/pm-work")
    sh(machine, "mkdir -p /root/mutants")
    for module in need(Pm(mutants=True)).modules:
        machine.guest.put(module, f"/root/mutants/{module.name}")


def _row(machine: Machine, asked: Asked, mutant: str) -> str:
    """Record one window."""
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
    message = verdict(done)
    if message and not mutant:
        raise RemError(f"the work in the guest has failed: {message}")
    sh(machine, "rmmod pmbc && rmmod pmcore")
    return message


def verdict(done: GuestResult) -> str:
    """What the program found wrong, or nothing. That it did not run to its end finds no bug."""
    message = done.stderr.strip()
    if done.ok:
        return ""
    if done.returncode != int(Exit.BROKEN) or not WRONG.match(message):
        raise InfraError(f"the work in the guest ended with exit {done.returncode}: {message}")
    return message


def window(machine: Machine, begins: bool) -> None:
    assert machine.qemu is not None
    assert machine.plugin is not None
    machine.qemu.qmp.execute("stop")
    machine.plugin.window(begins)
    machine.qemu.qmp.execute("cont")


def judge(asked: Asked, nvram_bytes: int) -> list[dict[str, Any]]:
    """The judgement of each window."""
    argv: list[str | Path] = [
        need(PmJudge()),
        asked.folder,
        f"{region_phys(nvram_bytes):#x}",
        str(REGION_BYTES),
    ]
    argv += [str(asked.limit), str(asked.seed)]
    done = run.run(argv, what="judging cuts", timeout_s=JUDGE_LIMIT_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def campaign(asked: Asked) -> list[Window]:
    """Record and judge; the recording is kept where something is wrong with it."""
    messages = record(asked)
    nvram_bytes = (asked.folder / "base.media").stat().st_size
    judged = judge(asked, nvram_bytes)
    names = ("", *asked.mutants)
    if len(judged) != len(names):
        raise RemError(f"{asked.folder}: {len(judged)} windows of {len(names)} were judged")
    windows = [Window(*each) for each in zip(names, judged, messages, strict=True)]
    if not windows[0].broken and not any(window.missed for window in windows):
        shutil.rmtree(asked.folder)
    return windows


def figures(windows: list[Window]) -> Result:
    """Violations are those of the modules as they are; a bug without its verdict is missed."""
    result = Result("campaign-pm")
    plain, planted = windows[0].judged, windows[1:]
    for name in ("operations", "places", "images", "violations"):
        result.add(name, int(plain[name]), "", "counted")
    for window in windows:
        name = f"mutant {window.mutant}" if window.mutant else "the modules as they are"
        found = window.broken or "no violation"
        info(f"campaign: {name}: {'MISSED, found by ' if window.missed else ''}{found}")
    missed = sum(window.missed for window in planted)
    result.add("mutants", len(planted), "", "counted")
    result.add("mutants_missed", missed, "", "counted")
    result.ok = not windows[0].broken and not missed and plain["images"] > 0
    return result

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The parts of the project, and how they share the time of a run in CI.

A folder of tests and a crate belong to the share that names them, and to `core` if none does, so
that nothing is left out.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.setup.campaign import Campaign
from lab.setup.heap import HeapLibrary, HeapMutants, HeapWithPeer
from lab.setup.keep import KEEP_ROOT, KeepModule, RemKeep
from lab.setup.loader import Loader
from lab.setup.media_peer import MediaPeer, MediaPeerMutants
from lab.setup.memory import MemoryModel
from lab.setup.need import Part
from lab.setup.objects import ObjectPrograms
from lab.setup.off2f import Off2fModule, Off2fTool
from lab.setup.openldap import LdapServer
from lab.setup.ovmf import Ovmf, SecureOvmf
from lab.setup.persist import PersistPrograms
from lab.setup.pm import Pm, PmJudge
from lab.setup.products import RISCV, TPM, Kernel, RiscvRoot
from lab.setup.protocol import Protocol
from lab.setup.psm_bench import PsmBench
from lab.setup.replay import RemReplay
from lab.setup.root import Root
from lab.setup.share_server import ShareServerFiles
from lab.setup.stock import Stock
from lab.setup.vm import RemVm

BUDGET_MINUTES = 80  # a run in CI is ended after 90
SET_UP_MINUTES = 25


@dataclass(frozen=True)
class Share:
    """The time of one part, its folders of tests and crates, and products that its tests need.

    *limit_minutes* are of two idle cores; more is reported, and counts towards the whole budget.
    *parts* are made by set-up in the tiers that run machines, beside those that most shares need.
    """

    name: str
    limit_minutes: float
    tests: tuple[str, ...]
    crates: tuple[str, ...] = ()
    parts: tuple[Part[Any], ...] = ()


# Many files of short tests: at the end they keep all workers busy until the last long one is done.
LAST = ("tests/unit",)
CORE = Share("core", 8, tests=("tests", "loader/host"))
OTHERS = (
    Share("first hour", 6, tests=("tests/fresh",)),
    Share(
        "honest hardware",
        10,
        tests=("tests/hardware",),
        crates=("machine/cache", "machine/campaign", "models/power"),
        parts=(Campaign(),),
    ),
    Share(
        "pm",
        6,
        tests=("tests/pm",),
        parts=(Pm(), Pm(mutants=True), Pm(stock=True), PmJudge(), Stock()),
    ),
    Share(
        "heap",
        5,
        tests=("tests/heap", "heap/tests"),
        crates=("heap",),
        parts=(HeapWithPeer(), HeapMutants(), HeapLibrary(), LdapServer()),
    ),
    Share(
        "off2f",
        4,
        tests=("tests/off2f",),
        crates=("off2f",),
        parts=(Off2fModule(), Off2fModule(stock=True), Off2fTool()),
    ),
    Share(
        "guest",
        3,
        tests=("tests/guest",),
        parts=(ShareServerFiles(), Root.having("nginx"), Root.having(regions=True)),
    ),
    Share("vm", 3, tests=("tests/vm",), crates=("vm",), parts=(RemVm(), Stock())),
    Share(
        "keep",
        3,
        tests=("tests/keep",),
        crates=("keep",),
        parts=(RemKeep(), KeepModule(), Stock(), KEEP_ROOT),
    ),
    Share(
        "uefi",
        3,
        tests=("tests/uefi",),
        crates=("remctl",),
        parts=(TPM, Ovmf(), SecureOvmf(), Loader(mutants=True)),
    ),
    Share(
        "trust",
        3,
        tests=("tests/trust",),
        parts=(TPM, Ovmf(), SecureOvmf(), Loader(mutants=True)),
    ),
    Share(
        "riscv",
        4,
        tests=("tests/riscv",),
        parts=(
            RISCV,
            Kernel("riscv64"),
            Kernel("riscv64-mutants"),
            Loader(isa="riscv64"),
            Loader(mutants=True, isa="riscv64"),
            RiscvRoot(),
        ),
    ),
    Share("fsync", 4, tests=("tests/fsync",), crates=("replay",), parts=(RemReplay(),)),
    Share("mixed", 3, tests=("tests/mixed",)),
    Share("persist", 3, tests=("tests/persist",), parts=(PersistPrograms(), ObjectPrograms())),
    Share(
        "protocol",
        3,
        tests=("tests/protocol",),
        crates=("models/protocol",),
        parts=(Protocol(),),
    ),
    Share(
        "media",
        3,
        tests=("tests/media",),
        crates=("models/memory",),
        parts=(MemoryModel(), MediaPeer(), MediaPeerMutants(), PsmBench(mutants=True)),
    ),
)
SHARES = (*OTHERS, CORE)  # the order of their tests in Python


def crate_folders(repo: Path, share: Share) -> list[str]:
    """Folders of the workspace's crates that belong to the share."""
    text = (repo / "Cargo.toml").read_text(encoding="utf-8")
    members: list[str] = tomllib.loads(text)["workspace"]["members"]
    if share is CORE:
        taken = [folder for other in OTHERS for folder in other.crates]
        return [member for member in members if not _below(member, taken)]
    return [member for member in members if _below(member, share.crates)]


def crate_name(repo: Path, folder: str) -> str:
    """Name of the package in a folder, for `cargo -p`."""
    text = (repo / folder / "Cargo.toml").read_text(encoding="utf-8")
    name: str = tomllib.loads(text)["package"]["name"]
    return name


def pytest_words(repo: Path, share: Share) -> list[str]:
    """Words for pytest: the existing files and folders of tests of a share."""
    if share is not CORE:
        return [folder for folder in share.tests if (repo / folder).is_dir()]
    taken = [folder for other in OTHERS for folder in other.tests]
    words = []
    for top in share.tests:
        names = sorted(path.relative_to(repo) for path in (repo / top).iterdir())
        words += [str(name) for name in names if name.match("test_*.py")]
        words += [
            str(name)
            for name in names
            if str(name) not in taken and any((repo / name).glob("test_*.py"))
        ]
    return sorted(words, key=lambda word: word in LAST)  # else in this order


def share_of(name: str) -> Share:
    """The share of a file of tests, or of the dotted name of its module."""
    path = Path(name.replace(".", "/"))
    for share in OTHERS:
        if _below(path, share.tests):
            return share
    return CORE


def _below(folder: str | Path, tops: list[str] | tuple[str, ...]) -> bool:
    return any(Path(folder).is_relative_to(top) for top in tops)

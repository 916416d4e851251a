# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packages of the last commit and of a later one, and a system that has apt and none of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab import run
from lab.commit import Commit, commit_of_checkout
from lab.distribution.system import APT, inside, offer
from lab.setup.debian_root import DebianRoot
from lab.setup.debs import Debs
from lab.setup.host import debian
from lab.setup.products import need, need_all

RELEASES = ("bookworm", "trixie")  # Debian 12 and 13
# A program for one release runs on later ones: their C library has all that it asks.
LATER = RELEASES[RELEASES.index(debian().codename) :]


@dataclass(frozen=True)
class Repository:
    """Packages of one commit, and the same ones as a later commit would name them."""

    commit: Commit
    debs: Path
    later: Commit
    later_debs: Path


@dataclass(frozen=True)
class System:
    """A root that mmdebstrap has made; nothing of it runs but what `call` starts."""

    root: Path

    def call(self, *words: str) -> run.Done:
        return inside(self.root, *words)

    def apt(self, *words: str) -> run.Done:
        return self.call(*APT, *words)

    def offer(self, debs: Path) -> None:
        """Make these the packages of the repository, and read its index."""
        offer(self.root, debs)
        self.apt("update")

    def files(self) -> set[str]:
        """All paths but those of apt, of dpkg's own memory and of logs."""
        found = run.run(["find", self.root, "-xdev", "-printf", "%P\\n"]).stdout.splitlines()
        own = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "run", "srv", "tmp", "dev")
        return {name for name in found if not name.startswith(own)}

    def files_of_packages(self) -> set[str]:
        """Of those that are installed."""
        listed = self.call("sh", "-c", "cat /var/lib/dpkg/info/*.list").stdout.splitlines()
        return {name.lstrip("/") for name in listed}


@pytest.fixture(scope="session")
def repository() -> Repository:
    now = commit_of_checkout()
    later = replace(now, time_s=now.time_s + 1)
    made = need_all([Debs(now), Debs(later)])
    return Repository(now, made[Debs(now)], later, made[Debs(later)])


@pytest.fixture(params=LATER)
def system(
    request: pytest.FixtureRequest, tmp_path: Path, repository: Repository
) -> Iterator[System]:
    root = tmp_path / "root"
    base = need(DebianRoot("apt", suite=request.param))
    run.run(["cp", "-a", base, root], what="a system that has apt")
    here = System(root)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    run.run(["mount", "-t", "proc", "proc", root / "proc"])
    try:
        here.offer(repository.debs)
        yield here
    finally:
        run.run(["umount", root / "proc"])

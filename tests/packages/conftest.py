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
from lab.distribution.publish import publish
from lab.setup.debian_root import DebianRoot
from lab.setup.debs import Debs
from lab.setup.products import need, need_all

REPOSITORY = "srv/remanence"
# Without a user of its own for downloads, which cannot read what only root may.
APT = ("-q", "-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false")


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

    def call(self, *words: str, check: bool = True) -> run.Done:
        env = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "PATH": SBIN_PATH}
        return run.run(["chroot", self.root, *words], env=env, check=check)

    def apt(self, *words: str) -> run.Done:
        return self.call("apt-get", *APT, *words)

    def offer(self, debs: Path) -> None:
        """Make these the packages of the repository, and read its index."""
        publish(debs, self.root / REPOSITORY)
        self.apt("update")

    def files(self) -> set[str]:
        """All paths but those of apt, of dpkg's own memory and of logs."""
        found = run.run(["find", self.root, "-xdev", "-printf", "%P\\n"]).stdout.splitlines()
        own = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "run", "srv", "tmp", "dev")
        return {name for name in found if not name.startswith(own)}


SBIN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="session")
def repository() -> Repository:
    now = commit_of_checkout()
    later = replace(now, time_s=now.time_s + 1)
    made = need_all([Debs(now), Debs(later)])
    return Repository(now, made[Debs(now)], later, made[Debs(later)])


@pytest.fixture
def system(tmp_path: Path, repository: Repository) -> Iterator[System]:
    root = tmp_path / "root"
    run.run(["cp", "-a", need(DebianRoot("apt")), root], what="a system that has apt")
    here = System(root)
    (root / REPOSITORY).mkdir(parents=True)
    source = f"deb [trusted=yes] file:/{REPOSITORY} ./\n"
    (root / "etc/apt/sources.list.d/remanence.list").write_text(source, encoding="utf-8")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    run.run(["mount", "-t", "proc", "proc", root / "proc"])
    try:
        here.offer(repository.debs)
        yield here
    finally:
        run.run(["umount", root / "proc"])

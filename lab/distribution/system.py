# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A Debian in a folder: its programs run in it, and apt installs our packages there."""

from __future__ import annotations

from pathlib import Path

from lab.distribution.publish import publish
from lab.run import Done, find_tool, run

REPOSITORY = "srv/remanence"
LIST = "etc/apt/sources.list.d/remanence.list"
ENV = {
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
}
# Without a user of its own for downloads, which cannot read what only root may.
APT = ("apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false")


def inside(root: Path, *words: str, what: str = "", check: bool = True) -> Done:
    """Run a program of that system to its end."""
    chroot = find_tool("chroot")
    assert chroot is not None  # of coreutils
    return run([chroot, root, *words], env=ENV, what=what, check=check)


def offer(root: Path, debs: Path) -> None:
    """Make these the packages of its repository; apt knows them after its next update."""
    publish(debs, root / REPOSITORY)
    (root / LIST).write_text(f"deb [trusted=yes] file:/{REPOSITORY} ./\n", encoding="utf-8")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guest's root for RISC-V: Debian 13, which is the first that has the architecture.

base      CACHE/riscv-root-base/KEY   Debian's packages
product   CACHE/riscv-root/KEY        root.img, with our init and programs
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.guest_root import additions
from lab.guest_root.image import make_ext4
from lab.guest_root.personalise import personalise
from lab.isa import RISCV64
from lab.paths import repo_dir
from lab.progress import step
from lab.run import run, stream
from lab.setup.debian_root import debootstrap, root_log
from lab.setup.foreign import need_foreign
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.root import FORMAT, IMAGE_BYTES, LEFT_OUT, ensure_ssh_key, without_mirrors

SUITE = "trixie"
ROOT = "guest root for RISC-V"
# Packages of the guest, with their purpose.
GUEST_PACKAGES = {
    "redis-server": "load: acknowledged writes that only memory holds",
    "memcached": "load: the same over another protocol",
    "sqlite3": "load: a database on the disk",
    "dropbear-bin": "commands from the host",
    "busybox-static": "what init needs",
    "iproute2": "network set-up",
    "procps": "ps, free, sysctl",
    "e2fsprogs": "makes file systems",
    "kmod": "modules, where a test needs one",
    "netcat-openbsd": "sockets from shell scripts",
    "python3": "small programs of tests and campaigns",
}
BUSYBOX = "usr/bin/busybox"


@dataclass(frozen=True)
class RiscvRootBase(Part[Path]):
    """The packages of the guest, unpacked and set up."""

    groups = (Group.ROOT, Group.RISCV_BUILD)
    lane = "root"

    def make(self, site: Site) -> Path:
        def build(into: Path) -> None:
            need_foreign(RISCV64)
            names = tuple(GUEST_PACKAGES)
            debootstrap(
                SUITE, into, "minbase", names, what=ROOT, left_out=LEFT_OUT, isa=RISCV64
            )  # fmt: skip

        return site.product("riscv-root-base", _base_key(), build) / "files"


@dataclass(frozen=True)
class RiscvRoot(Part[Path]):
    """The image of this checkout."""

    groups = (Group.COMPILER, Group.ROOT, Group.RISCV_BUILD)
    lane = "root"

    def requires(self) -> tuple[Part[Any], ...]:
        return (RiscvRootBase(),)

    def make(self, site: Site) -> Path:
        public_key = ensure_ssh_key()
        inputs = Inputs("riscv-root").add("format", FORMAT).add("base", _base_key())
        inputs.add("size", str(IMAGE_BYTES)).add("ssh", public_key)
        inputs.add_path(repo_dir() / "guest", "guest")

        def build(into: Path) -> None:
            need_foreign(RISCV64)
            with step(f"{ROOT}: image"):
                _make_image(site[RiscvRootBase()], public_key, into)

        return site.product("riscv-root", inputs.key(), build) / "root.img"


def _base_key() -> str:
    inputs = Inputs("riscv-root-base").add("suite", SUITE)
    return inputs.add("packages", repr(sorted(GUEST_PACKAGES))).add("no", repr(LEFT_OUT)).key()


def _make_image(base: Path, public_key: str, into: Path) -> None:
    tree, built, work = into / "files", into / "programs", into / "work"
    tree.mkdir(mode=0o700)  # other users must not reach a root's set-user-ID programs
    run(["cp", "-al", f"{base}/.", tree], what="copying the guest root")
    without_mirrors(tree)
    argv = ["make", "-C", "guest/programs", f"OUT={built}", f"ISA={RISCV64.name}"]
    argv += [f"CC={RISCV64.tools}gcc"]
    stream(argv, cwd=repo_dir(), log=root_log(), what="compiling guest/programs")
    work.mkdir()
    busybox = base / BUSYBOX
    added = [
        *additions.programs(repo_dir() / "guest", built, busybox),
        *additions.tools(base, work / "tools", RISCV64),
    ]
    personalise(tree, added, busybox, public_key)
    make_ext4(tree, into / "root.img", IMAGE_BYTES)
    for folder in (tree, built, work):
        shutil.rmtree(folder)

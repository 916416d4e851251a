# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian as mmdebstrap installs it, with nothing of ours.

product   CACHE/debian-root/KEY   files: the tree

It is this machine's release, or another one, from this machine's sources. Copy it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.isa import X86_64, Isa
from lab.paths import cache_dir
from lab.progress import step
from lab.run import stream
from lab.setup import sources
from lab.setup.apt import AptProgress
from lab.setup.host import debian, explain, is_root, need_disk, once_as_root
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

ROOT_MIB = 2500  # the unpacked root and the image, measured, with room


@dataclass(frozen=True)
class DebianRoot(Part[Path]):
    """The tree: a *variant* of mmdebstrap, with these packages besides; *suite*: a codename."""

    variant: str
    names: tuple[str, ...] = ()
    suite: str = ""

    groups = (Group.ROOT,)
    lane = "root"

    def make(self, site: Site) -> Path:
        codename = self.suite or debian().codename
        inputs = Inputs("debian-root").add("suite", codename).add("variant", self.variant)

        def build(into: Path) -> None:
            debootstrap(codename, into, self.variant, self.names, what=f"Debian {codename}")

        key = inputs.add("packages", repr(self.names)).key()
        return site.product("debian-root", key, build) / "files"


def debootstrap(
    codename: str,
    into: Path,
    variant: str,
    names: tuple[str, ...],
    *,
    what: str,
    left_out: tuple[str, ...] = (),
    isa: Isa = X86_64,
) -> None:
    """Install Debian with these packages into `files` below *into*.

    *what*: its name in messages; *left_out*: patterns of files; *isa*: programs of which this host
    can start.
    """
    may_make(what)
    # Mirrors of an architecture that few use may lag behind with what came after a release.
    own, updates = debian().codename, isa is X86_64
    listing = sources.write_release(codename, into, own, updates=updates)
    argv = ["mmdebstrap", "--verbose", "--mode=root", f"--variant={variant}"]
    argv += [f"--architectures={isa.debian}"] if isa is not X86_64 else []
    argv += ["--include=" + ",".join(names)] if names else []
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in left_out]
    argv += [f"--aptopt={option}" for option in sources.apt_network_options()]
    argv += [codename, str(into / "files"), str(listing)]
    with step(f"{what}: packages", unit="steps") as shown:
        try:
            stream(argv, log=root_log(), on_line=AptProgress(shown).read, what="mmdebstrap")
        except InfraError as error:
            raise explain(error, f"making the {what}") from error
    listing.unlink()


def may_make(what: str) -> None:
    """Raise if this process cannot make a root, or the disk has no room for one."""
    if not is_root():
        raise InfraError(
            f"the {what} is made with root's rights (chroot, device nodes): {once_as_root()}"
        )
    need_disk(cache_dir(), ROOT_MIB, f"the {what}")


def root_log() -> Path:
    """The log of what makes roots."""
    return cache_dir() / "logs" / "root.log"

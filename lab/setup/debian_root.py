# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian as mmdebstrap installs it, with nothing of ours.

product   CACHE/debian-root/KEY   files: the tree

It is this machine's release, from this machine's sources. Copy it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.progress import step
from lab.run import stream
from lab.setup import sources
from lab.setup.apt import AptProgress
from lab.setup.host import debian, explain
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.root import may_make


@dataclass(frozen=True)
class DebianRoot(Part[Path]):
    """The tree: a *variant* of mmdebstrap, with these packages besides."""

    variant: str
    names: tuple[str, ...] = ()

    groups = (Group.ROOT,)
    lane = "root"

    def make(self, site: Site) -> Path:
        codename = debian().codename
        inputs = Inputs("debian-root").add("suite", codename).add("variant", self.variant)

        def build(into: Path) -> None:
            may_make()
            listing = sources.write_release(codename, into)
            argv = ["mmdebstrap", "--verbose", "--mode=root", f"--variant={self.variant}"]
            argv += ["--include=" + ",".join(self.names)] if self.names else []
            argv += [f"--aptopt={option}" for option in sources.apt_network_options()]
            argv += [codename, str(into / "files"), str(listing)]
            log = cache_dir() / "logs" / "debian-root.log"
            with step("Debian: packages", unit="steps") as shown:
                try:
                    stream(argv, log=log, on_line=AptProgress(shown).read, what="mmdebstrap")
                except InfraError as error:
                    raise explain(error, "installing Debian") from error
            listing.unlink()

        key = inputs.add("packages", repr(self.names)).key()
        return site.product("debian-root", key, build) / "files"

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A Debian 13 with CBMC, which Debian 12 does not have: the proofs of the loader run in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.progress import step
from lab.run import stream
from lab.setup import sources
from lab.setup.host import debian, explain
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

CODENAME = "trixie"
PACKAGES = ("cadical", "cbmc", "libc6-dev", "make")


@dataclass(frozen=True)
class Prover(Part[Path]):
    """The value is the root."""

    groups = (Group.ROOT, Group.MACHINE)

    def make(self, site: Site) -> Path:
        key = Inputs("prover").add("suite", CODENAME).add("packages", repr(PACKAGES)).key()
        return site.product("prover", key, _debootstrap) / "files"


def _debootstrap(into: Path) -> None:
    listing = sources.write_release(CODENAME, into, debian().codename)
    argv = ["mmdebstrap", "--mode=root", "--variant=apt", "--include=" + ",".join(PACKAGES)]
    argv += [f"--aptopt={option}" for option in sources.apt_network_options()]
    argv += [CODENAME, str(into / "files"), str(listing)]
    log = cache_dir() / "logs" / "prover.log"
    try:
        with step("Debian 13 with CBMC"):
            stream(argv, log=log, on_line=lambda line: None, what="mmdebstrap")
    except InfraError as error:
        raise explain(error, "making a Debian 13 with CBMC") from error
    listing.unlink()

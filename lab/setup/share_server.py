# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The server of shared folders (diod) with its dependencies, unpacked and not installed.

    product   CACHE/share-server/KEY   files of Debian packages, by mmdebstrap

The installation of Debian's package would start a server on the host. In addition, a sandbox made
of these files does not expose the host's own files to the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.progress import step
from lab.run import stream
from lab.setup import sources
from lab.setup.host import debian, explain, is_root, once_as_root
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

PACKAGES = ("diod", "util-linux")  # the latter has setpriv
FORMAT = "1"


@dataclass(frozen=True)
class ShareServerFiles(Part[Path]):
    """A folder that serves as the root of the server's sandbox."""

    groups = (Group.ROOT, Group.MACHINE)
    lane = "root"

    def make(self, site: Site) -> Path:
        codename = debian().codename

        def build(into: Path) -> None:
            if not is_root():
                raise InfraError(
                    f"the share server is unpacked with root's rights: {once_as_root()}"
                )
            with step("share server: packages"):
                _unpack(codename, into)

        key = Inputs("share-server").add("suite", codename).add("packages", repr(PACKAGES))
        return site.product("share-server", key.add("format", FORMAT).key(), build) / "files"


def _unpack(codename: str, into: Path) -> None:
    listing = sources.write_release(codename, into)
    argv = ["mmdebstrap", "--mode=root", "--variant=extract", "--format=directory"]
    argv += ["--include=" + ",".join(PACKAGES)]
    argv += [f"--aptopt={option}" for option in sources.apt_network_options()]
    argv += [codename, str(into / "files"), str(listing)]
    try:
        stream(argv, log=cache_dir() / "logs" / "share-server.log", what="mmdebstrap")
    except InfraError as error:
        raise explain(error, "fetching the server of shared folders") from error
    listing.unlink()

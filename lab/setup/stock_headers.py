# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian's headers of its own 6.12, to build modules for it, and the package of its image.

product   CACHE/debian-headers/VERSION   the packages, unpacked and not installed
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.progress import step
from lab.run import run
from lab.setup.apt import apt_versions_of, newest
from lab.setup.fetch import unpack
from lab.setup.need import Part, Site

STOCK = re.compile(r"^linux-headers-(6\.12\.\d+\+deb\d+)-amd64$")


@dataclass(frozen=True)
class Headers:
    """Headers of one of Debian's kernels."""

    version: str
    folder: Path  # the folder for `make -C`


@dataclass(frozen=True)
class StockHeaders(Part[Headers]):
    """Headers of the newest 6.12 kernel in this machine's apt sources."""

    lane = "fetch"

    def make(self, site: Site) -> Headers:
        version = stock_version()
        folder = site.product("debian-headers", version, lambda into: _fetch(version, into))
        return Headers(version, folder / "usr" / "src" / f"linux-headers-{version}-amd64")


def stock_version() -> str:
    names = run(["apt-cache", "pkgnames", "linux-headers-6.12."]).stdout.split()
    found = [match[1] for match in map(STOCK.match, names) if match]
    if not found:
        raise InfraError(
            "apt has no linux-headers-6.12.*-amd64: is the release's security suite or its "
            "backports among the machine's sources?"
        )
    return newest(found)


def image_package(release: str, version: str = "") -> str:
    """The package with the kernel of a release, such as 6.12.118+deb12-amd64.

    Debian signs a kernel some time after it has built it. Until then apt offers the same kernel
    without a signature, which no machine of ours checks.

    *version*: of the package; any if empty. Returns an empty string if apt offers none.
    """
    names = [f"linux-image-{release}", f"linux-image-{release}-unsigned"]
    offered = apt_versions_of(names)
    fits = [name for name in names if offered[name] and (not version or version in offered[name])]
    return fits[0] if fits else ""


def _fetch(version: str, into: Path) -> None:
    names = [f"linux-headers-{version}-amd64", f"linux-headers-{version}-common"]
    names.append(f"linux-kbuild-{version}")
    with step("Debian's kernel headers"):
        unpack("Debian's headers", names, into)
    # Only this file contains the path where the packages expect to be installed.
    makefile = into / "usr" / "src" / f"linux-headers-{version}-amd64" / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    common = f"../linux-headers-{version}-common"
    place = f"$(dir $(realpath $(lastword $(MAKEFILE_LIST)))){common}/Makefile"
    makefile.write_text(re.sub(r"^include /usr/src/.*$", f"include {place}", text, flags=re.M))

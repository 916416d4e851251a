# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Xen hypervisor as Debian ships it, with a domain that counts: a guest that is no Linux.

product   CACHE/xen/KEY   xen (a multiboot ELF), initrd (busybox: counts on its console)
"""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.progress import step
from lab.run import run
from lab.setup.fetch import dependencies, unpack
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.newc import archive
from lab.setup.packages import BUSYBOX, Group

SYSTEM = "xen-system-amd64"  # depends on this release's hypervisor
INIT = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
b=/bin/busybox
$b mkdir -p /proc /sys; $b mount -t proc proc /proc; $b mount -t sysfs sys /sys
n=0
while :; do n=$((n + 1)); echo "$($b cat /sys/hypervisor/type) count $n."; $b sleep 0.2; done
"""


@dataclass(frozen=True)
class XenFiles:
    """What QEMU loads."""

    hypervisor: Path
    initrd: Path


@dataclass(frozen=True)
class Xen(Part[XenFiles]):
    groups = (Group.GUESTS,)
    lane = "fetch"

    def make(self, site: Site) -> XenFiles:
        package = _package()
        key = Inputs("xen").add("package", package).add("init", INIT).key()

        def build(into: Path) -> None:
            with step(package), tempfile.TemporaryDirectory(dir=into) as scratch:
                unpack("Xen", [package], Path(scratch))
                packed = next((Path(scratch) / "boot").glob("xen-*-amd64.gz"))
                (into / "xen").write_bytes(gzip.decompress(packed.read_bytes()))
            files = {"init": INIT.encode(), "bin/busybox": BUSYBOX.read_bytes()}
            (into / "initrd").write_bytes(archive(files))

        folder = site.product("xen", key, build)
        return XenFiles(folder / "xen", folder / "initrd")


def _package() -> str:
    """`xen-hypervisor-VERSION-amd64` of this release."""
    shown = run(["apt-cache", "depends", "--important", SYSTEM], what="asking apt for Xen").stdout
    for name in dependencies(shown):
        if name.startswith("xen-hypervisor-") and name.endswith("-amd64"):
            return name
    raise InfraError(f"{SYSTEM} depends on no hypervisor: run apt update")

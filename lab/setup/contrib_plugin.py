# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QEMU's own cache plugin (contrib/plugins/cache.c), for the comparison in `rem bench machine`.

    product   CACHE/contrib-plugin/KEY   libcache.so, from the source of the QEMU that is installed

Debian packages no plugins, so its source package is fetched, by apt with a source list of our own:
nothing is installed and the machine's sources do not change. Only the plugin and its header are
unpacked from the source package; glib's headers are unpacked from their package, too.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.progress import step
from lab.run import run
from lab.setup.apt import installed_versions
from lab.setup.fetch import fetch_source, unpack
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import QEMU, Group

SOURCE = "qemu"
GLIB = "libglib2.0-dev"
LIBRARY = "libcache.so"
UNPACKED = ("contrib/plugins/cache.c", "qemu-plugin.h")
FLAGS = ("-shared", "-fPIC", "-O2", "-Wall")


@dataclass(frozen=True)
class ContribPlugin(Part[Path]):
    """For the QEMU of this host."""

    groups = (Group.COMPILER, Group.MACHINE, Group.SOURCES)

    def make(self, site: Site) -> Path:
        version = installed_versions([QEMU])[QEMU]
        key = Inputs("contrib-plugin").add("qemu", version).add("gcc", tool_version("gcc")).key()

        def build(into: Path) -> None:
            with tempfile.TemporaryDirectory(dir=into) as scratch:
                folder = Path(scratch)
                with step("QEMU's cache plugin: fetch its source"):
                    _fetch(version, folder)
                with step("QEMU's cache plugin: compile"):
                    _compile(folder, into / LIBRARY)

        return site.product("contrib-plugin", key, build) / LIBRARY


def _fetch(version: str, folder: Path) -> None:
    fetch_source(SOURCE, version, folder, "--tar-only")
    tarball = next(iter(sorted(folder.glob("qemu_*.orig.tar.*"))), None)
    if tarball is None:
        raise InfraError(f"apt did not fetch the source of {SOURCE} {version}")
    wanted = [f"*/{name}" for name in UNPACKED]
    argv: list[str | Path] = ["tar", "-xf", tarball, "--wildcards", *wanted]
    run(argv, cwd=folder, what="unpacking QEMU's cache plugin")
    unpack("glib's headers", [GLIB], folder / "glib")


def _compile(folder: Path, target: Path) -> None:
    found = {name: next(iter(folder.glob(f"qemu-*/**/{name}")), None) for name in UNPACKED}
    source, header = (found[name] for name in UNPACKED)
    config = next(iter(folder.glob("glib/usr/lib/*/glib-2.0/include")), None)
    if source is None or header is None or config is None:
        raise InfraError("QEMU's source package has no contrib/plugins/cache.c, or glib no headers")
    includes = [header.parent, folder / "glib/usr/include/glib-2.0", config]
    argv: list[str | Path] = ["gcc", *FLAGS, *(f"-I{path}" for path in includes)]
    built = target.with_suffix(".new")
    run([*argv, source, "-o", built], what="compiling QEMU's cache plugin")
    shutil.move(built, target)

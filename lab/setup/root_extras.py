# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kernel modules and programs of this project that a guest's root gets on request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.guest_root.additions import Addition, modules
from lab.guest_root.spec import RootSpec
from lab.paths import repo_dir
from lab.setup.kernel import Kernel
from lab.setup.need import Part, Site
from lab.setup.off2f import Off2fModule, Off2fTool
from lab.setup.pm import Pm
from lab.setup.works import Works

PYTHON_FOLDER = "/usr/lib/python3/dist-packages"
WORKS_FOLDER = "/opt/rem/works"


@dataclass(frozen=True)
class Extras:
    """Additions, and their kernel."""

    release: str  # as printed by `uname -r`; empty without modules
    modules: tuple[Path, ...]
    programs: tuple[tuple[str, Path], ...]  # its path in the guest, and its source

    @property
    def key(self) -> str:
        """Return the hash of all additions."""
        found = hashlib.sha256(self.release.encode())
        for path in self.modules:
            found.update(path.name.encode() + b"\0" + path.read_bytes())
        for name, path in self.programs:
            found.update(name.encode() + b"\0" + path.read_bytes())
        return found.hexdigest()

    def files(self, work: Path) -> Iterator[Addition]:
        for name, source in self.programs:
            yield Addition.of(name, source)
        if self.modules:
            yield from modules(self.release, self.modules, work)


NOTHING = Extras("", (), ())


def extra_parts(spec: RootSpec) -> tuple[Part[Any], ...]:
    """Return the parts that the root of a spec needs."""
    parts: list[Part[Any]] = [Kernel(spec.kernel)] if spec.pm or spec.off2f else []
    if spec.pm:
        parts.append(Pm(variant=spec.kernel))
    if spec.off2f:
        parts += [Off2fModule(variant=spec.kernel), Off2fTool()]
    if spec.works:
        parts.append(Works())
    return tuple(parts)


def extras_of(spec: RootSpec, site: Site) -> Extras:
    found: list[Path] = []
    programs: list[tuple[str, Path]] = []
    if spec.works:
        built = sorted(site[Works()].iterdir())
        programs += [(f"{WORKS_FOLDER}/{one.name}", one) for one in built]
    if not (spec.pm or spec.off2f):
        return Extras("", (), tuple(programs))
    if spec.pm:
        pm, sources = site[Pm(variant=spec.kernel)], repo_dir() / "pm"
        found += pm.modules
        programs += [
            ("/usr/local/bin/pmadmin", pm.pmadmin),
            ("/usr/lib/libpm.so.1", pm.folder / "libpm.so.1"),
            ("/usr/lib/libpm.a", pm.folder / "libpm.a"),
            ("/usr/include/libpm.h", sources / "lib" / "libpm.h"),
            ("/usr/include/rem_pm_uapi.h", sources / "include" / "rem_pm_uapi.h"),
            (f"{PYTHON_FOLDER}/pm.py", sources / "lib" / "pm.py"),
        ]
    if spec.off2f:
        found.append(site[Off2fModule(variant=spec.kernel)].module)
        programs.append(("/usr/local/bin/off2f", site[Off2fTool()]))
    return Extras(site[Kernel(spec.kernel)].version, tuple(found), tuple(programs))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that outlive their system: the module for Debian's own 6.12, and `rem-keep`.

product   CACHE/keep/KEY   rem_keep.ko

The module's sources are copied into one folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.commit import base_version
from lab.paths import repo_dir
from lab.progress import step
from lab.setup import modules
from lab.setup.cargo import CargoPart
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.modules import build_modules
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.patch_series import Series, add_series, read_series
from lab.setup.root import Root
from lab.setup.stock_headers import StockHeaders

MODULE = "rem_keep"
KEEP_ROOT = Root.having("criu", "iptables", "kexec-tools")
FOLDERS = ("kernel", "include")
FORMATS = ("rem_image.h", "rem_vm.h", "rem_keep.h")


@dataclass(frozen=True)
class RemKeep(CargoPart):
    """The guest's program."""

    kind = "keep-program"
    crate = "remanence-keep"
    file = "rem-keep"


@dataclass(frozen=True)
class KeepModule(Part[Path]):
    """The module; with *mutants*, with the planted bugs of keep/mutants (`mutant=NAME`)."""

    mutants: bool = False

    groups = (Group.COMPILER, Group.MODULES)

    def requires(self) -> tuple[Part[Any]]:
        return (StockHeaders(),)

    def make(self, site: Site) -> Path:
        headers = site[StockHeaders()]
        inputs = Inputs("keep").add("kernel", headers.version).add("gcc", tool_version("gcc"))
        patches = series() if self.mutants else None
        if patches is not None:
            add_series(inputs, patches)
        for path in (*sources(), Path(__file__), Path(modules.__file__)):
            inputs.add_path(path, path.name)

        def build(into: Path) -> None:
            with step(f"keep: the module for {headers.version}"):
                planted = patches.patches if patches is not None else ()
                build_modules(headers.folder, into, sources(), planted, (MODULE,))

        return site.product("keep", inputs.key(), build) / f"{MODULE}.ko"


def series() -> Series:
    """The planted bugs of the module."""
    return read_series(repo_dir() / "keep" / "mutants")


def sources() -> Iterator[Path]:
    """The files that are compiled."""
    repo = repo_dir()
    for folder in FOLDERS:
        yield from sorted(p for p in (repo / "keep" / folder).iterdir() if p.is_file())
    yield from (repo / "format" / name for name in FORMATS)


def dkms_conf() -> str:
    """What DKMS reads of the module."""
    text = (repo_dir() / "keep/dist/dkms.conf").read_text(encoding="utf-8")
    return text.replace("@version@", base_version())


def write_dkms(root: Path) -> Path:
    """The sources as `dkms add` wants them, below *root*/usr/src. The folder."""
    folder = root / "usr/src" / f"remanence-keep-{base_version()}"
    folder.mkdir(parents=True)
    for path in sources():
        shutil.copyfile(path, folder / path.name)
    (folder / "dkms.conf").write_text(dkms_conf(), encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs and libraries of the Debian packages, built so that no path of this machine is in them.

    product   CACHE/package-tools/KEY   each file of TOOLS, and what `make -C pm install` installs

Rust's compiler writes the places of sources into messages of panics. Here they are places below
/usr/src, whatever the checkout and cargo's folder are.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup.cargo import COMMON, Rust, cargo_build, cargo_env, crate_sources
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

PLACE = "/usr/src/remanence"
# By crate.
TOOLS = {
    "remanence-remctl": "remctl",
    "remanence-vm": "rem-vm",
    "remanence-keep": "rem-keep",
    "remanence-replay": "rem-replay",
    "off2f": "off2f",
    "nvheap-c": "libnvheap.a",
}
PM = ("lib", "include", "admin", "dist", "Makefile")


@dataclass(frozen=True)
class PackageTools(Part[Path]):
    """The folder: programs and libnvheap.a, and below `pm` the root of what pm installs."""

    groups = (Group.COMPILER, Group.RUST)
    lane = "cargo"

    def requires(self) -> tuple[Part[str]]:
        return (Rust(),)

    def make(self, site: Site) -> Path:
        repo = repo_dir()
        inputs = Inputs("package-tools").add("rustc", site[Rust()]).add("gcc", tool_version("gcc"))
        inputs.add("tools", repr(TOOLS)).add("flags", repr(_remapped(Path("cargo"), Path("repo"))))
        crates = {source for crate in TOOLS for source in crate_sources(crate)}
        names = (*COMMON, *sorted(crates), *(f"pm/{name}" for name in PM))
        for name in names:
            inputs.add_path(repo / name, name)
        return site.product("package-tools", inputs.key(), _build)


def _remapped(cargo: Path, repo: Path) -> tuple[str, ...]:
    """The flags; the longest prefix that matches is the last one."""
    places = ((cargo, "/usr/src/cargo"), (repo, PLACE))
    return tuple(f"--remap-path-prefix={path}={place}" for path, place in places)


def _build(into: Path) -> None:
    repo = repo_dir()
    cargo = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").resolve()
    target = Path(cargo_env()["CARGO_TARGET_DIR"]) / "packages"
    flags = " ".join(_remapped(cargo, repo))
    for crate, file in TOOLS.items():
        shutil.copy(cargo_build(crate, file, flags=flags, folder=target), into / file)
    argv: list[str | Path] = ["make", "-C", repo / "pm", "install"]
    argv += [f"OUT={into / 'objects'}", f"DESTDIR={into / 'pm'}", "PREFIX=/usr"]
    log = cache_dir() / "logs" / "package-tools.log"
    stream(argv, log=log, what="building libpm and pmadmin")
    shutil.rmtree(into / "objects")

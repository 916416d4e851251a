# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Products of the Rust workspace: each is a program or library of one crate."""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup import rust
from lab.setup.host import explain
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

# Inputs of every crate: the workspace's files, and the formats, which a build script may read.
COMMON = ("Cargo.toml", "Cargo.lock", "format")
NOT_BUILT = {"benches", "examples", "fuzz", "tests"}  # folders of a crate


def cargo_env() -> dict[str, str]:
    """Return the environment of cargo, with a target folder for each checkout.

    In a shared folder cargo would use another checkout's library: it identifies a workspace's
    crates by their place in it, and sources by their times.
    """
    checkout = hashlib.sha256(str(repo_dir()).encode()).hexdigest()[:8]
    folder = os.environ.get("CARGO_TARGET_DIR") or str(cache_dir() / "cargo-target" / checkout)
    return {"CARGO_TARGET_DIR": folder, "CARGO_TERM_COLOR": "never"}


def cargo_build(
    crate: str,
    file: str,
    target: str = "",
    flags: str = "",
    features: str = "",
    profile: str = "release",
    *,
    folder: Path | None = None,
) -> Path:
    """Build a crate and return a file of it; cargo itself decides what to rebuild.

    *folder*: another target folder, for flags with which nothing else is built.
    """
    argv = ["cargo", "build", "--profile", profile, "--locked", "-p", crate]
    argv += ["--features", features] if features else []
    env = {**cargo_env(), **({"RUSTFLAGS": flags} if flags else {})}
    if folder is not None:
        env["CARGO_TARGET_DIR"] = str(folder)
    argv += ["--target", target] if target else []
    run_cargo(argv, f"building {crate}", log=crate, env=env)
    return Path(env["CARGO_TARGET_DIR"]) / target / profile / file


def run_cargo(argv: list[str], what: str, log: str, env: dict[str, str]) -> None:
    """Run a command of cargo that compiles; its crates are counted, its output is in logs/LOG."""
    try:
        with step(what, unit="crates") as shown:

            def count(line: str) -> None:
                if line.lstrip().startswith(("Compiling ", "Checking ")):
                    shown.advance()

            path = cache_dir() / "logs" / f"{log}.log"
            stream(argv, cwd=repo_dir(), env=env, log=path, on_line=count, what=what)
    except InfraError as error:
        raise explain(error, what) from error


def crate_sources(crate: str) -> list[str]:
    """Return the sources of a crate and of the crates of the workspace that it depends on."""
    members = _members()
    found: dict[str, None] = {}
    left = [crate]
    while left:
        folder, dependencies = members[left.pop()]
        if folder not in found:
            found[folder] = None
            left += dependencies
    names = [
        f"{folder}/{path.name}"
        for folder in found
        for path in (repo_dir() / folder).iterdir()
        if path.name not in NOT_BUILT
    ]
    return sorted(names)


def _members() -> dict[str, tuple[str, list[str]]]:
    """Return by crate: its folder, and the crates of the workspace that it names."""
    folders: list[str] = _manifest(".")["workspace"]["members"]
    manifests = {folder: _manifest(folder) for folder in folders}
    by_folder = {folder: str(m["package"]["name"]) for folder, m in manifests.items()}
    found = {}
    for folder, manifest in manifests.items():
        wanted = []
        for table in ("dependencies", "build-dependencies"):
            for dependency in manifest.get(table, {}).values():
                path = dependency.get("path") if isinstance(dependency, dict) else None
                if path is not None:
                    wanted.append(by_folder[os.path.normpath(f"{folder}/{path}")])
        found[by_folder[folder]] = (folder, wanted)
    return found


def _manifest(folder: str) -> dict[str, Any]:
    return tomllib.loads((repo_dir() / folder / "Cargo.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Rust(Part[str]):
    """The compiler; the value is its version."""

    groups = (Group.RUST,)

    def make(self, site: Site) -> str:
        return rust.checked_version()


class CargoPart(Part[Path]):
    """A file of one crate. Subclasses are frozen dataclasses that set the class attributes."""

    kind: ClassVar[str]  # of product
    crate: ClassVar[str]
    file: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()  # other crates whose programs are put into the same folder
    more: ClassVar[tuple[str, ...]] = ()  # sources outside the crates
    features: ClassVar[str] = ""
    target: ClassVar[str] = ""
    flags: ClassVar[str] = ""
    profile: ClassVar[str] = "release"

    groups: ClassVar[tuple[Group, ...]] = (Group.COMPILER, Group.RUST)
    lane = "cargo"

    def requires(self) -> tuple[Part[str]]:
        return (Rust(),)

    @classmethod
    def key(cls, compiler: str) -> str:
        flags = f"{cls.target} {cls.flags} {cls.features} {cls.profile}"
        inputs = Inputs(cls.kind).add("rustc", compiler).add("flags", flags)
        sources = {source for crate in (cls.crate, *cls.also) for source in crate_sources(crate)}
        for name in (*COMMON, *cls.more, *sorted(sources)):
            inputs.add_path(repo_dir() / name, name)
        return inputs.key()

    def make(self, site: Site) -> Path:
        def build(into: Path) -> None:
            for crate, file in ((self.crate, self.file), *((name, name) for name in self.also)):
                built = cargo_build(
                    crate, file, self.target, self.flags, self.features, self.profile
                )
                shutil.copy(built, into / file)

        return site.product(self.kind, self.key(site[Rust()]), build) / self.file

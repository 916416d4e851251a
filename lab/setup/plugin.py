# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The QEMU plugin: a Rust library of the workspace."""

from __future__ import annotations

import hashlib
import os
import shutil
import tomllib
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup import cache
from lab.setup.host import explain
from lab.setup.inputs import Inputs
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

LIBRARY = "libremanence_plugin.so"


def cargo_env() -> dict[str, str]:
    """A target folder for each checkout. In a shared one cargo takes another checkout's library for
    this one's: it knows a workspace's crates by their place in it, and sources by their times.
    """
    checkout = hashlib.sha256(str(repo_dir()).encode()).hexdigest()[:8]
    folder = os.environ.get("CARGO_TARGET_DIR") or str(cache_dir() / "cargo-target" / checkout)
    return {"CARGO_TARGET_DIR": folder, "CARGO_TERM_COLOR": "never"}


def plugin_key(compiler: str) -> str:
    repo = repo_dir()
    inputs = Inputs("plugin").add("rustc", compiler)
    for name in ("Cargo.toml", "Cargo.lock", "format", *_members(repo)):
        inputs.add_path(repo / name, name)
    return inputs.key()


def ensure_plugin(progress: Progress) -> Path:
    """The plugin of this checkout."""
    key = plugin_key(ensure_rust(progress))

    def make(into: Path) -> None:
        argv = ["cargo", "build", "--release", "--locked", "-p", "remanence-plugin"]
        with progress.step("plugin"):
            try:
                log = cache_dir() / "logs" / "plugin.log"
                stream(
                    argv, cwd=repo_dir(), env=cargo_env(), log=log, what="building the QEMU plugin"
                )
            except InfraError as error:
                raise explain(error, "building the QEMU plugin") from error
        built = Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / LIBRARY
        shutil.copy(built, into / LIBRARY)

    return cache.product("plugin", key, make) / LIBRARY


def _members(repo: Path) -> list[str]:
    """The folders of the workspace's crates: any may be a part of the plugin."""
    text = (repo / "Cargo.toml").read_text(encoding="utf-8")
    members: list[str] = tomllib.loads(text)["workspace"]["members"]
    return [os.path.normpath(member) for member in members]

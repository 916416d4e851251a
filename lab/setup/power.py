# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power model: the program `remanence-power` of the crate in power/."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup import cache
from lab.setup.host import explain
from lab.setup.inputs import Inputs
from lab.setup.plugin import cargo_env
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

PROGRAM = "remanence-power"


def power_key(compiler: str) -> str:
    repo = repo_dir()
    inputs = Inputs("power").add("rustc", compiler)
    for name in ("Cargo.toml", "Cargo.lock", "models/power", "machine/cache"):
        inputs.add_path(repo / name, name)
    return inputs.key()


def ensure_power(progress: Progress) -> Path:
    """The power model of this checkout."""
    key = power_key(ensure_rust(progress))

    def make(into: Path) -> None:
        what = "building the power model"
        argv = ["cargo", "build", "--release", "--locked", "-p", PROGRAM]
        with progress.step("power model"):
            try:
                log = cache_dir() / "logs" / "power.log"
                stream(argv, cwd=repo_dir(), env=cargo_env(), log=log, what=what)
            except InfraError as error:
                raise explain(error, what) from error
        shutil.copy(Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / PROGRAM, into / PROGRAM)

    return cache.product("power", key, make) / PROGRAM

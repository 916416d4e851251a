# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The campaign's engine: a program of the workspace that judges images of recorded runs."""

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

PROGRAM = "remanence-campaign"
MODEL = "remanence-model"  # writes recordings of the model of the protocol
# What the programs are made of: their crates, and the loader's core, which is linked in.
SOURCES = (
    "Cargo.toml",
    "Cargo.lock",
    "format",
    "loader/core",
    "machine/campaign",
    "machine/crash-states",
    "machine/model",
    "machine/recording",
)


def ensure_campaign(progress: Progress) -> Path:
    """The engine of this checkout."""
    compiler = ensure_rust(progress)
    inputs = Inputs("campaign").add("rustc", compiler)
    for name in SOURCES:
        inputs.add_path(repo_dir() / name, name)
    # The build script reads the offsets of CPU contexts from one of the kernel's headers.
    for header in sorted((repo_dir() / "kernel").rglob("*.h")):
        inputs.add_path(header, str(header.relative_to(repo_dir())))

    def make(into: Path) -> None:
        argv = ["cargo", "build", "--release", "--locked", "-p", PROGRAM, "-p", MODEL]
        with progress.step("campaign"):
            try:
                log = cache_dir() / "logs" / "campaign.log"
                stream(argv, cwd=repo_dir(), env=cargo_env(), log=log, what="building the engine")
            except InfraError as error:
                raise explain(error, "building the campaign's engine") from error
        built = Path(cargo_env()["CARGO_TARGET_DIR"]) / "release"
        for name in (PROGRAM, MODEL):
            shutil.copy(built / name, into / name)

    return cache.product("campaign", inputs.key(), make) / PROGRAM

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-media`, the program of the memory model: one job at a time. A job and its answer are JSON;
the jobs are in models/memory/src/jobs.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from lab.errors import InfraError, RemError, UsageError
from lab.paths import cache_dir, repo_dir
from lab.run import run, stream
from lab.setup import cache
from lab.setup.host import explain
from lab.setup.inputs import Inputs
from lab.setup.plugin import cargo_env
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

NAME = "rem-media"
INPUTS = (
    "Cargo.toml",
    "Cargo.lock",
    "models/memory/Cargo.toml",
    "models/memory/src",
    "models/memory/parts",
    "format",
)


def ensure_media(progress: Progress) -> Path:
    """The program of this checkout."""
    inputs = Inputs("media").add("rustc", ensure_rust(progress))
    for name in INPUTS:
        inputs.add_path(repo_dir() / name, name)

    def make(into: Path) -> None:
        argv = ["cargo", "build", "--release", "--locked", "-p", "ocpmem"]
        with progress.step("memory model"):
            try:
                log = cache_dir() / "logs" / "media.log"
                stream(argv, cwd=repo_dir(), env=cargo_env(), log=log, what="building rem-media")
            except InfraError as error:
                raise explain(error, "building rem-media") from error
        shutil.copy(Path(cargo_env()["CARGO_TARGET_DIR"]) / "release" / NAME, into / NAME)

    return cache.product("media", inputs.key(), make) / NAME


class Engine:
    """Runs jobs by the program."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self._known: dict[str, dict[str, Any]] = {}

    @staticmethod
    def ready() -> Engine:
        """The checkout's program, built if necessary; `REM_MEDIA` names another one."""
        chosen = os.environ.get("REM_MEDIA")
        return Engine(Path(chosen) if chosen else ensure_media(Progress()))

    def ask(self, do: str, timeout_s: float | None = None, **job: Any) -> dict[str, Any]:
        """The answer to a job; a wrong job is a UsageError of one line."""
        text = json.dumps({"do": do, **job})
        done = run([self.program, "-"], stdin=text, check=False, timeout_s=timeout_s, what=NAME)
        if done.returncode == 2:
            raise UsageError(done.stderr.strip().removeprefix(f"{NAME}: "))
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError as error:
            why = done.stderr.strip().splitlines()[:1] or [f"exit {done.returncode}"]
            raise RemError(f"{NAME} gave no answer to {text}: {why[0]}") from error
        return answer

    def ask_once(self, do: str, **job: Any) -> dict[str, Any]:
        """The same, cached, because a model's answer to a job does not change.

        The caller must not modify the answer.
        """
        key = json.dumps({"do": do, **job}, sort_keys=True)
        if key not in self._known:
            self._known[key] = self.ask(do, **job)
        return self._known[key]


def memory(controller: str, **settings: Any) -> dict[str, Any]:
    """A memory of a job."""
    return {"controller": controller, **settings}


def value(answer: dict[str, Any], name: str) -> float:
    """A figure of the memory in an answer."""
    return float(answer["memory"][name]["value"])

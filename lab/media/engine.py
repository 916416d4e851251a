# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-media`, the program of the memory model: one job at a time. A job and its answer are JSON;
the jobs are in models/memory/src/jobs.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lab.errors import RemError, UsageError
from lab.run import run
from lab.setup.memory import MemoryModel
from lab.setup.products import need

NAME = MemoryModel.file


class Engine:
    """Runs jobs by the program."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self._known: dict[str, dict[str, Any]] = {}

    @staticmethod
    def ready() -> Engine:
        """The checkout's program, built if necessary; `REM_MEDIA` names another one."""
        chosen = os.environ.get("REM_MEDIA")
        return Engine(Path(chosen) if chosen else need(MemoryModel()))

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


def idle_read_ps(controller: str) -> float:
    """What a controller takes for a read, where one follows the other."""
    answer = Engine.ready().ask_once(
        "traffic",
        memory=memory(controller),
        read_percent=100,
        block_bytes=64,
        in_flight=1,
        requests=100_000,
        pattern="random",
    )
    return float(answer["read_mean_ns"]) * 1000

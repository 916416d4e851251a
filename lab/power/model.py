# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Questions to the power model (models/power/src/query.rs): JSON in, JSON out.

Invariant: no formula of the model is written a second time in Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import InfraError, UsageError
from lab.run import run

ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True)
class PowerModel:
    """The program, with its built-in profiles or those of a file."""

    program: Path
    profiles: Path | None = None

    @staticmethod
    def ready() -> PowerModel:
        """Of this checkout; built if necessary."""
        from lab.setup.products import Progress, ensure_power

        return PowerModel(ensure_power(Progress()))

    def ask(self, question: str, **words: Any) -> Any:
        """The answer, or UsageError with the model's message."""
        argv = [self.program, *([self.profiles] if self.profiles else [])]
        line = json.dumps({"ask": question, **words})
        done = run(argv, stdin=line + "\n", timeout_s=ANSWER_LIMIT_S, check=False)
        if not done.ok:
            raise UsageError(done.stderr.strip().removeprefix("remanence-power: "))
        try:
            answer = json.loads(done.stdout)
        except ValueError as error:
            raise InfraError(f"{self.program} answered {done.stdout[:80]!r}: rebuild it") from error
        if "error" in answer:
            raise UsageError(answer["error"])
        return answer["ok"]

    def names(self, kind: str) -> list[str]:
        return [name for name, _ in self.ask("names", kind=kind)]

    def window_ns(self, supply: str, load: str = "busy", machine: str | None = None) -> int:
        """How long a supply holds; on its own machine unless another is named."""
        return int(self.ask("supply", name=supply, machine=machine)[f"{load}_window_ns"])

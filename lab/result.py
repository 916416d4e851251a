# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The one object that `--json` prints: the contract with machines that read results.

The last line of stdout is {"name", "ok", "missed", "figures": {NAME: {"value", "unit", "kind"}}};
all else goes to stderr. `missed` names figures whose aim was not reached; `ok` is false then.
`kind` is how a figure was obtained, so that a model is not taken for a clock.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["native", "modelled", "counted"]


@dataclass(frozen=True)
class Figure:
    value: float | int | str | bool
    unit: str
    kind: Kind


@dataclass
class Result:
    """Collects figures while a command runs."""

    name: str
    ok: bool = True
    figures: dict[str, Figure] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def add(self, name: str, value: float | int | str | bool, unit: str, kind: Kind) -> None:
        assert name not in self.figures, f"figure {name} given twice"
        self.figures[name] = Figure(value, unit, kind)

    def miss(self, name: str) -> None:
        """The aim of that figure was not reached."""
        assert name in self.figures, f"no figure {name}"
        self.missed.append(name)
        self.ok = False

    def as_json(self) -> str:
        figures = {name: vars(figure) for name, figure in self.figures.items()}
        return json.dumps(
            {"name": self.name, "ok": self.ok, "missed": self.missed, "figures": figures}
        )

    def emit(self) -> None:
        """Print the object as the last line of stdout."""
        sys.stderr.flush()
        print(self.as_json(), flush=True)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the kernel is told of the write-back: the longer of what both models answer.

The models themselves are tested where they are (cargo): that no history takes longer on Optane is
in models/memory/src/jobs/flush.rs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.bench import write_back
from lab.bench.write_back import write_back_us
from lab.errors import UsageError
from lab.media.engine import Engine
from lab.power.model import PowerModel

LINES = 256
NVRAM_BYTES = 1 << 30


class Models:
    """Both, and what they were asked."""

    def __init__(self, caches_ns: int, behind_ns: float) -> None:
        self.caches_ns, self.behind_ns = caches_ns, behind_ns
        self.asked: list[dict[str, Any]] = []

    def power(self, question: str, **words: Any) -> dict[str, Any]:
        self.asked.append({"ask": question, **words})
        return {"time_ns": self.caches_ns, "lines": LINES}

    def memory(self, do: str, **job: Any) -> dict[str, Any]:
        self.asked.append({"do": do, **job})
        return {"longest_ns": self.behind_ns}


def answering(monkeypatch: pytest.MonkeyPatch, caches_ns: int, behind_ns: float) -> Models:
    models = Models(caches_ns, behind_ns)
    power, engine = PowerModel(Path()), Engine(Path())
    monkeypatch.setattr(PowerModel, "ready", staticmethod(lambda: power))
    monkeypatch.setattr(
        PowerModel, "ask", lambda _self, *words, **more: models.power(*words, **more)
    )
    monkeypatch.setattr(Engine, "ready", staticmethod(lambda: engine))
    monkeypatch.setattr(
        Engine, "ask_once", lambda _self, *words, **more: models.memory(*words, **more)
    )
    return models


@pytest.mark.parametrize(
    ("caches_ns", "behind_ns", "us"),
    [
        (6_784, 7_516_196.83, 7_517),  # a memory that keeps much before its media
        (2_903_552, 15_331.0, 2_904),  # large caches, which are walked through
        (1_000, 1_000.0, 1),
        (1_001, 1_000.0, 2),
    ],
)
def test_longer_answer_counts_and_is_rounded_up(
    monkeypatch: pytest.MonkeyPatch, caches_ns: int, behind_ns: float, us: int
) -> None:
    answering(monkeypatch, caches_ns, behind_ns)
    assert write_back_us("optane", "lightpc", 1, NVRAM_BYTES) == us


def test_models_are_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    models = answering(monkeypatch, 1, 1.0)
    write_back_us("ocpmem:row_buffer=off:program_ns=500", "lightpc", 4, NVRAM_BYTES)
    caches, behind = models.asked
    assert (caches["profile"], caches["cores"], caches["how"]) == ("lightpc", 4, "wbinvd")
    assert caches["dirty_bytes"] == write_back.ALL_DIRTY_BYTES
    assert behind == {
        "do": "flush",
        "memory": {"controller": "lightpc", "row_buffer": False, "change": {"program_ns": 500.0}},
        "lines": NVRAM_BYTES // 64,
        "dirty_lines": LINES,
    }


def test_wrong_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, 1, 1.0)
    with pytest.raises(UsageError, match="tape"):
        write_back_us("tape", "lightpc", 1, NVRAM_BYTES)

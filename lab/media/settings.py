# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A memory as people write it: a controller, and NAME=VALUE settings that change it."""

from __future__ import annotations

from typing import Any

from lab.errors import UsageError

WORDS = {"on": True, "off": False, "true": True, "false": False}
MECHANISMS = ("xcc", "early_return", "row_buffer", "start_gap", "randomize")
NAMED = ("layout", "order", "stagger", "part", "part_file")


def memory_of(controller: str, settings: list[str]) -> dict[str, Any]:
    """The memory of a job."""
    memory: dict[str, Any] = {"controller": controller, "change": {}}
    for setting in settings:
        name, found, text = setting.partition("=")
        if not found:
            raise UsageError(f"--set {setting}: give NAME=VALUE")
        if name in MECHANISMS:
            if text not in WORDS:
                raise UsageError(f"--set {setting}: give on or off")
            memory[name] = WORDS[text]
        elif name in NAMED:
            memory[name] = text
        else:
            try:
                number = float(text)
            except ValueError:
                raise UsageError(f"--set {setting}: {text} is not a number") from None
            if name == "threshold_writes":
                memory[name] = int(number)
            else:
                memory["change"][name] = number
    return memory

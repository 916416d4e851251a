# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a rule reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    file: str
    line: int
    what: str
    rule: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"

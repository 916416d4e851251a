# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-histories`: whether what clients remember is linearizable."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class Histories(CargoPart):
    """The program."""

    kind = "histories"
    crate = "remanence-histories"
    file = "rem-histories"

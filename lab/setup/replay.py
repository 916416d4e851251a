# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-replay`: writes what an fsync has acknowledged in memory to the files."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class RemReplay(CargoPart):
    """The guest's program."""

    kind = "replay"
    crate = "remanence-replay"
    file = "rem-replay"

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The memory model: the program `rem-media` of the crate in models/memory."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class MemoryModel(CargoPart):
    """The memory model of this checkout."""

    kind = "media"
    crate = "ocpmem"
    file = "rem-media"

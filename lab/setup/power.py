# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power model: the program `remanence-power` of the crate in models/power."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class Power(CargoPart):
    """The power model of this checkout."""

    kind = "power"
    crate = "remanence-power"
    file = "remanence-power"

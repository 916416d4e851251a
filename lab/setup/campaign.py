# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The campaign's engine: a program of the workspace that checks images of recorded runs."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class Campaign(CargoPart):
    """The engine of this checkout."""

    kind = "campaign"
    crate = "remanence-campaign"
    file = "remanence-campaign"
    more = ("loader/core",)  # it is linked with the loader's own decision

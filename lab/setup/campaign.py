# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The campaign's engine: a program of the workspace that checks images of recorded runs."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart

MODEL = "remanence-model"  # writes recordings of the model of the protocol


@dataclass(frozen=True)
class Campaign(CargoPart):
    """The engine of this checkout."""

    kind = "campaign"
    crate = "remanence-campaign"
    file = "remanence-campaign"
    also = (MODEL,)
    # It links the loader's own decision, and contains the layout of the kernel's contexts.
    more = ("loader/core", "kernel/x86/isa.h")

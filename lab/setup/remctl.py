# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`remctl`: what an administrator of an installed server types."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class Remctl(CargoPart):
    """The server's program."""

    kind = "remctl"
    crate = "remanence-remctl"
    file = "remctl"

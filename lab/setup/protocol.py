# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-protocol`: checks the protocol of Stop and Go over every cut."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class Protocol(CargoPart):
    """The program."""

    kind = "protocol"
    crate = "remanence-protocol"
    file = "rem-protocol"

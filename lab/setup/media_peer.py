# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The memory model beside DRAMsim3: the program of models/memory/peer, which links both.

DRAMsim3 comes with the crate `dramsim3`, and is compiled by cmake.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.setup.cargo import CargoPart
from lab.setup.packages import Group
from lab.setup.patch_series import Series, read_series


@dataclass(frozen=True)
class MediaPeer(CargoPart):
    """`rem-media-peer` of this checkout."""

    kind = "media-peer"
    crate = "ocpmem-peer"
    file = "rem-media-peer"
    features = "dramsim3"
    groups = (Group.COMPILER, Group.RUST, Group.MEDIA_PEER)


@dataclass(frozen=True)
class MediaPeerMutants(MediaPeer):
    """The same with the planted bugs of models/memory/mutants on our side."""

    kind = "media-peer-mutants"
    features = "dramsim3,mutants"


def media_mutants(repo: Path) -> Series:
    """The planted bugs of the memory model."""
    return read_series(repo / "models" / "memory" / "mutants")

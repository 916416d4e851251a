# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UEFI firmware for machines and guests, with its shell: OVMF as Debian ships it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.setup.need import Part, Site
from lab.setup.packaged import files_of
from lab.setup.packages import Group


@dataclass(frozen=True)
class Firmware:
    """Two files of flash: the code, and variables as they are at first."""

    code: Path
    variables: Path


@dataclass(frozen=True)
class Ovmf(Part[Firmware]):
    groups = (Group.UEFI,)
    lane = "fetch"

    def make(self, site: Site) -> Firmware:
        names = ("CODE", "VARS")
        files = {f"{name}.fd": f"usr/share/OVMF/OVMF_{name}_4M.fd" for name in names}
        folder = files_of(site, "ovmf", files)
        return Firmware(*(folder / name for name in files))

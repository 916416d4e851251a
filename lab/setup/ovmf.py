# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UEFI firmware for guests, with its shell: OVMF as Debian ships it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.progress import step
from lab.setup.fetch import unpack
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site

FORMAT = "1"  # raised when the product changes


@dataclass(frozen=True)
class Firmware:
    """Two files of flash: the code, and variables as they are at first."""

    code: Path
    variables: Path


@dataclass(frozen=True)
class Ovmf(Part[Firmware]):
    lane = "fetch"

    def make(self, site: Site) -> Firmware:
        def build(into: Path) -> None:
            with step("OVMF"), tempfile.TemporaryDirectory(dir=into) as scratch:
                unpack("OVMF", ["ovmf"], Path(scratch))
                flash = Path(scratch) / "usr" / "share" / "OVMF"
                for name in ("CODE", "VARS"):
                    (flash / f"OVMF_{name}_4M.fd").rename(into / f"{name}.fd")

        folder = site.product("ovmf", Inputs("ovmf").add("format", FORMAT).key(), build)
        return Firmware(folder / "CODE.fd", folder / "VARS.fd")

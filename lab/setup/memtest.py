# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtest86+ as Debian ships it: a guest that is no Linux, and reports each line of memory that is
not as it left it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.setup.need import Part, Site
from lab.setup.packaged import files_of

IMAGE = "memtest86+x64.bin"


@dataclass(frozen=True)
class Memtest(Part[Path]):
    """The image, which QEMU starts as it starts a kernel."""

    lane = "fetch"

    def make(self, site: Site) -> Path:
        return files_of(site, "memtest86+", {IMAGE: f"boot/{IMAGE}"}) / IMAGE

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtest86+ as Debian ships it: a guest that is no Linux, and reports each line of memory that is
not as it left it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.progress import step
from lab.setup.fetch import unpack
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site

FORMAT = "1"  # raised when the product changes
IMAGE = "memtest86+x64.bin"


@dataclass(frozen=True)
class Memtest(Part[Path]):
    """The image, which QEMU starts as it starts a kernel."""

    lane = "fetch"

    def make(self, site: Site) -> Path:
        def build(into: Path) -> None:
            with step("memtest86+"), tempfile.TemporaryDirectory(dir=into) as scratch:
                unpack("memtest86+", ["memtest86+"], Path(scratch))
                (Path(scratch) / "boot" / IMAGE).rename(into / IMAGE)

        return site.product("memtest", Inputs("memtest").add("format", FORMAT).key(), build) / IMAGE

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NVRAM that is DRAM with a battery: it keeps its content for hours, then it is blank.

The battery is full at each power-on; models/power/src/nvdimm.rs has how long it then lasts.
Invariant: after a longer time without power nothing is left of the memory, and so no image.
"""

from __future__ import annotations

import json
import os
import time

from lab.machine.nvdimm import NvdimmFiles
from lab.messages import info
from lab.power.model import PowerModel

KIND = "battery"


class BatteryMemory:
    """The modules of one machine, through all its boots."""

    def __init__(self, files: NvdimmFiles, size_bytes: int, model: PowerModel) -> None:
        self._files = files
        self._bytes = size_bytes
        self.retention_ns = int(model.ask("nvdimm", name=KIND, bytes=size_bytes)["retention_ns"])

    def power_off(self) -> None:
        self._files.state.write_text(json.dumps({"off_at_s": time.time()}), encoding="utf-8")

    def power_on(self, off_longer_s: int = 0) -> bool:
        """Before QEMU maps it: whether the content is there. *off_longer_s* is simulated time."""
        if not self._files.state.exists():
            return True
        off_at_s = float(json.loads(self._files.state.read_text(encoding="utf-8"))["off_at_s"])
        off_ns = (max(0.0, time.time() - off_at_s) + off_longer_s) * 1e9
        if off_ns <= self.retention_ns:
            return True
        info(
            f"rem: off for {off_ns / 3.6e12:.1f} h, and the battery of its memory lasts "
            f"{self.retention_ns / 3.6e12:.1f} h: it is blank"
        )
        os.truncate(self._files.dram, 0)
        os.truncate(self._files.dram, self._bytes)
        return False

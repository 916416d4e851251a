# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files in which a machine's lost lines are found, and the kernel that ran."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.lost_lines.report import Source
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles


def source_of(seen: Path, media: Path, writers: Path | None, kernel: Path | None) -> Source:
    """*kernel*: the bzImage that ran; None for this checkout's."""
    return Source(seen, media, writers, partial(map_and_layout, kernel))


def map_and_layout(kernel: Path | None) -> tuple[Path, Path]:
    """System.map, and the layout of structures, of the kernel that ran; None: this checkout's."""
    from lab.setup.layout import Layout
    from lab.setup.products import Kernel, need

    folder = (kernel or need(Kernel()).bz_image).parent
    return folder / "System.map", need(Layout(folder))


def source_of_machine(files: MachineFiles, config: MachineConfig) -> Source | None:
    """None where there is nothing to compare: no caches, or the power is on."""
    seen = files.at_cut(config)
    if config.caches is None or not seen.exists():
        return None
    source = source_of(seen, files.nvram(config), files.writers(config), config.kernel)
    return replace(source, firmware_bytes=config.block_bytes)

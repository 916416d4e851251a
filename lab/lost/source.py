# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where a machine's or a recording's loss is looked for, and with which kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.errors import UsageError
from lab.lost.report import Loss, Source, loss_of
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles


def source_of(seen: Path, media: Path, writers: Path | None, kernel: Path | None) -> Source:
    """*kernel*: the bzImage that ran; None for this checkout's."""
    return Source(seen, media, writers, partial(_map_and_layout, kernel))


def _map_and_layout(kernel: Path | None) -> tuple[Path, Path]:
    from lab.setup.layout import ensure_layout
    from lab.setup.products import Progress, ensure_kernel

    told = Progress()
    folder = (kernel or ensure_kernel(told).bz_image).parent
    return folder / "System.map", ensure_layout(told, folder)


def source_of_machine(files: MachineFiles, config: MachineConfig) -> Source | None:
    """None where there is nothing to compare: no caches, or the power is on."""
    seen = files.at_cut(config)
    if config.caches is None or not seen.exists():
        return None
    return source_of(seen, files.nvram(config), files.writers(config), config.kernel)


@contextmanager
def recorded_cut(recording: Path, cut: int, evict: str) -> Iterator[tuple[Path, Loss]]:
    """Media of one cut of a recording, and what is lost with it."""
    from lab.campaign import engine
    from lab.setup.campaign import ensure_campaign
    from lab.setup.products import Progress

    if not (recording / "recording.bin").is_file():
        raise UsageError(f"{recording}: no recording.bin there; name a recording's directory")
    program = ensure_campaign(Progress())
    with TemporaryDirectory(prefix="rem-lost-") as scratch:
        folder = Path(scratch)
        engine.lost(program, recording, cut, evict, folder)
        config = recording / "machine.json"  # a recording of the model has none
        kernel = None
        if config.is_file():
            kernel = MachineConfig.from_json(config.read_text(encoding="utf-8")).kernel
        source = source_of(folder / "seen", folder / "media", folder / "writers", kernel)
        yield folder / "media", loss_of(source)

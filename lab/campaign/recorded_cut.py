# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One cut of a recording: media as the cut leaves it, and the lines that are lost with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.campaign import engine
from lab.errors import UsageError
from lab.lost_lines.report import Loss, loss_of
from lab.lost_lines.source import source_of
from lab.machine.config import MachineConfig
from lab.setup.campaign import ensure_campaign
from lab.setup.progress import Progress


@contextmanager
def recorded_cut(recording: Path, cut: int, evict: str) -> Iterator[tuple[Path, Loss]]:
    """Media in a temporary file, and what is lost."""
    if not (recording / "recording.bin").is_file():
        raise UsageError(f"{recording} has no recording.bin: name a recording's directory")
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

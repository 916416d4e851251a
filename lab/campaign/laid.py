# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files of NVRAM and of media. A recording has NVRAM from its record block on: where firmware has
the beginning (lab/isa.py), the file of a machine has that, too, and a cut loses it.
"""

from __future__ import annotations

from pathlib import Path

from lab.machine.config import MIB_BYTES, MachineConfig
from lab.run import run


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file; what is zero takes no room."""
    run(["cp", "--sparse=always", source, target], what="copying media")


def without_firmware(nvram: Path, media: Path, config: MachineConfig) -> None:
    """From the file of a machine to that of a recording."""
    _shifted(nvram, media, config, "skip")


def behind_firmware(media: Path, nvram: Path, config: MachineConfig) -> None:
    """Lay what a recording has of media out for a machine."""
    nvram.unlink(missing_ok=True)
    _shifted(media, nvram, config, "seek")


def _shifted(source: Path, target: Path, config: MachineConfig, how: str) -> None:
    count, rest = divmod(config.block_bytes, MIB_BYTES)
    assert not rest, "firmware has whole MiB"
    if not count:
        copy_sparse(source, target)
        return
    words = [f"if={source}", f"of={target}", "bs=1M", f"{how}={count}", "conv=sparse"]
    run(["dd", "status=none", *words], what="copying media")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem run --pm` and `--off2f`: what is put aside of NVRAM, and what cannot be.

Goal: the regions are whole units, do not overlap, and leave a guest that boots.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.machine.config import MIB_BYTES, NVRAM_PHYS, MachineConfig


def config(**more: object) -> MachineConfig:
    return MachineConfig("m", Path("kernel"), **more)  # type: ignore[arg-type]


def test_regions_are_at_the_end_of_nvram_beside_each_other() -> None:
    words = config(pm_bytes=256 * MIB_BYTES, off2f_bytes=128 * MIB_BYTES).cmdline()
    assert "pm=256M rem.pm" in words  # at the end, by the kernel's own rule
    match = re.search(r"memmap=128M!(0x[0-9a-f]+) rem\.off2f=/dev/pmem0", words)
    assert match is not None
    end = int(match[1], 16) + 128 * MIB_BYTES
    assert end == NVRAM_PHYS + (1024 - 256) * MIB_BYTES


def test_no_region_is_put_aside_unasked() -> None:
    assert not re.search(r"rem\.|pm=|memmap", config().cmdline())


@pytest.mark.parametrize("size_bytes", [0, -2 * MIB_BYTES, 3 * MIB_BYTES, 4096])
@pytest.mark.parametrize("name", ["pm_bytes", "off2f_bytes"])
def test_sizes_are_whole_units(name: str, size_bytes: int) -> None:
    with pytest.raises(UsageError, match="multiple of 2 MiB"):
        config(**{name: size_bytes})


def test_guest_keeps_memory_to_boot() -> None:
    with pytest.raises(UsageError, match="--nvram, 1156M or more"):
        config(pm_bytes=900 * MIB_BYTES)
    config(pm_bytes=900 * MIB_BYTES, nvram_bytes=1156 * MIB_BYTES)


def test_regions_are_of_nvram() -> None:
    with pytest.raises(UsageError, match="may not use"):
        config(pm_bytes=64 * MIB_BYTES, memtype="dram")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fixtures of the memtype= tests: the built kernel, shim and initrd, and a machine to vary."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.shim_machine import (
    BASE_CMDLINE,
    NVRAM_START,
    Boot,
    BootOne,
    Machine,
    boot,
    build_initrd,
    build_shim,
)


@pytest.fixture(scope="session")
def memory_dir() -> Iterator[Path]:
    """Main memories of guests are files; on a disk they would be written back needlessly."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="memtype-", dir=parent) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def kernel() -> Path:
    """The kernel of this checkout; REM_TEST_KERNEL names another bzImage to try."""
    if "REM_TEST_KERNEL" in os.environ:
        return Path(os.environ["REM_TEST_KERNEL"])
    from lab.setup.products import Kernel, need

    return need(Kernel()).bz_image


@pytest.fixture(scope="session")
def base_machine(kernel: Path, memory_dir: Path) -> Machine:
    return Machine(
        kernel=kernel,
        shim=build_shim(memory_dir / "shim"),
        initrd=build_initrd(memory_dir / "initrd"),
        work_dir=memory_dir,
    )


@pytest.fixture(scope="session")
def boot_one(base_machine: Machine) -> BootOne:
    """Return a function that boots with these words on the command line.

    `nvram_type`: the type that the shim reports for the first NVDIMM, None if it reports none;
    further changes are fields of Machine.
    """

    def run(words: str, nvram_type: int | None = None, **changes: Any) -> Boot:
        machine = replace(base_machine, cmdline=f"{BASE_CMDLINE} {words}", **changes)
        if nvram_type is not None:
            entry = (NVRAM_START, sum(machine.nvram_bytes), nvram_type)
            machine = replace(machine, map_entries=(entry,))
        return boot(machine)

    return run

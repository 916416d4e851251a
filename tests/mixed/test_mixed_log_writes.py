# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: where DRAM caches NVRAM, what reaches a disk is a file system at any time, and has what
was acknowledged.

Method: as in tests/fsync/test_fsync_log_writes.py, which has the negative proofs of the method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.testbed.fsx import EXT4, XFS, FileSystem, fsx_config
from lab.testbed.mixed_checks import CACHE_BYTES
from lab.testbed.mixed_guest import mixed_config, state, wait_count
from lab.testbed.pm_guest import kernel_complaints
from tests.support.claims import BOOT_LIMIT_S, machine_name
from tests.support.logged_writes import DISK_BYTES, install_log, write_logged

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

OPERATIONS = 50
EACH = 6


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    config = replace(fsx_config(machine_name("mixed-log")), blank_bytes=DISK_BYTES)
    config = mixed_config(config, CACHE_BYTES)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        made.wait_up(BOOT_LIMIT_S)
        install_log(made)
        yield made


@pytest.mark.parametrize("kind", (EXT4, XFS), ids=("ext4", "xfs"))
def test_disk_has_what_it_has_promised(machine: Machine, kind: FileSystem) -> None:
    assert state(machine) == "on"
    logged = write_logged(machine, kind, "mixed", OPERATIONS, OPERATIONS)
    report = logged.look(EACH)
    assert report["points"] > OPERATIONS // EACH
    assert report["durable"] == OPERATIONS
    wait_count(machine, "promoted", 1)
    assert not kernel_complaints(machine)

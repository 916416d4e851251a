# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: where fsync ends in memory, what reaches the disk meanwhile is a file system at any time,
and has what was drained; where it does not, what was acknowledged.

Method: dm-log-writes has each write of ext4 and XFS under load. The log is replayed up to its
flushes; each time the disk is mounted, its files are compared with what it has promised by then,
and the file system's own program has to find nothing. Negative proofs: a replay that leaves writes
out, and a kernel that drops entries that no disk has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.testbed.fsx import EXT4, XFS, FileSystem, fsx_config
from lab.testbed.fsync_guest import SYSFS, counts, install, machine_of, state, wait_up
from lab.testbed.planted import NONE, plant
from lab.testbed.pm_guest import kernel_complaints, sh
from lab.verdict import BrokenError
from tests.support.claims import machine_name
from tests.support.logged_writes import DISK_BYTES, install_log, write_logged
from tests.support.proofs import must_be_found

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

OPERATIONS = 50
DRAIN_EACH = 10
EACH = 6  # flushes: to recover, read and check a disk takes seconds


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    config = replace(fsx_config(machine_name("fsync-log")), blank_bytes=DISK_BYTES)
    with machine_of(config) as made:
        made.boot()
        wait_up(made)
        install(made)
        install_log(made)
        yield made


def choose(machine: Machine, mode: str) -> None:
    sh(machine, f"echo {mode} >{SYSFS}/state")
    assert state(machine) == mode


@pytest.mark.parametrize("mode", ["memory", "disk"])
@pytest.mark.parametrize("kind", (EXT4, XFS), ids=("ext4", "xfs"))
def test_disk_has_what_it_has_promised(machine: Machine, kind: FileSystem, mode: str) -> None:
    choose(machine, mode)
    before = counts(machine)["in_memory"]
    logged = write_logged(machine, kind, mode, OPERATIONS, DRAIN_EACH)
    assert (counts(machine)["in_memory"] > before) == (mode == "memory")
    report = logged.look(EACH)
    assert report["points"] > OPERATIONS // DRAIN_EACH
    assert report["durable"] == OPERATIONS
    with pytest.raises(BrokenError) as broken:
        logged.look(EACH, lacks=5)
    assert broken.value.verdict == "promises-broken"
    assert not kernel_complaints(machine)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("mode", ["memory", "disk"])
@pytest.mark.parametrize("kind", (EXT4, XFS), ids=("ext4", "xfs"))
def test_disk_has_what_it_has_promised_at_each_flush(
    machine: Machine, kind: FileSystem, mode: str
) -> None:
    choose(machine, mode)
    logged = write_logged(machine, kind, f"{mode}-soak", 4 * OPERATIONS, DRAIN_EACH)
    logged.look(1)


@pytest.mark.parametrize(
    ("name", "kind", "seed", "each"),
    [
        ("fsync-cleaned-early", EXT4, "planted", 10**6),  # only where all was drained
        # ext4 would write it by itself. Six files are replaced, and few flushes reach the disk.
        ("fsync-replaces-unwritten", XFS, "replaced", 1),
    ],
    ids=("cleaned-early", "replaces-unwritten"),
)
def test_planted_bug_is_found(
    machine: Machine, name: str, kind: FileSystem, seed: str, each: int
) -> None:
    choose(machine, "memory")
    plant(machine, name)
    with must_be_found(name):
        logged = write_logged(machine, kind, seed, OPERATIONS, DRAIN_EACH)
        plant(machine, NONE)
        logged.look(each)

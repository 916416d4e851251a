# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on a disk whose cache is off, every write that QEMU answered is on media after a cut.

Method: QEMU alone, with the nodes of a volatile disk and no guest, gets writes as a disk without a
cache passes them on (FUA) and is killed once they are answered. The negative proof: the same writes
to the node that keeps the log, where QEMU omits the flush of the first write.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.machine import disks
from lab.machine.disk_log import SECTOR_BYTES
from lab.machine.qemu import QEMU

DISK_BYTES = 1 << 20
WRITE_BYTES = 4096

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


def written_and_killed(folder: Path, node: str, writes: int) -> list[bool]:
    """Make *writes* writes, each after the answer to the last; return which are on media."""
    files = disks.DiskFiles(folder / "disk.img", folder / "overlay", folder / "log")
    files.media.write_bytes(bytes(DISK_BYTES))
    disks.power_on(files)
    argv = [QEMU, "-machine", "none", "-nodefaults", "-display", "none", "-monitor", "stdio"]
    with subprocess.Popen(
        [*argv, *disks.blockdevs(files, str)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as qemu:
        assert qemu.stdin is not None and qemu.stdout is not None
        try:
            for number in range(writes):
                at = number * WRITE_BYTES
                qemu.stdin.write(f'qemu-io {node} "write -f -P 1 {at} {WRITE_BYTES}"\n')
                qemu.stdin.flush()
                output = iter(qemu.stdout.readline, "")
                assert any(f"wrote {WRITE_BYTES}/{WRITE_BYTES}" in line for line in output)
        finally:
            qemu.kill()
    settled = disks.settle(files)
    assert settled is not None and settled.writes == writes
    media = files.media.read_bytes()
    whole = bytes([1]) * SECTOR_BYTES
    return [
        media[at : at + SECTOR_BYTES] == whole for at in range(0, writes * WRITE_BYTES, WRITE_BYTES)
    ]


@pytest.mark.parametrize("writes", [1, 3])
def test_answered_writes_are_on_media(tmp_path: Path, writes: int) -> None:
    assert all(written_and_killed(tmp_path, "rem-disk", writes))


def test_log_node_alone_omits_the_first_flush(tmp_path: Path) -> None:
    assert written_and_killed(tmp_path, "rem-logged", 1) == [False]

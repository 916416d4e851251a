# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what a machine prints is in its log once, however late its console is read.

A campaign takes a program's promises from there. Method: a guest of a few bytes writes 0, 1, 2, ...
to the serial port, and nothing reads it. The negative proof leaves the buffer of QEMU's end of the
socket at its default size: then QEMU tries again, and its log has a character twice.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.machine.qemu import QEMU, make_room

# A boot sector, 16 bits: wait for the empty register (port 0x3fd), write CL to port 0x3f8, CL + 1.
WRITER = bytes.fromhex("bafd03 ec a820 74fb baf803 88c8 ee fec1 ebee")
BYTES = 5_000  # a socket of the default size holds about three hundred of one byte each
LIMIT_S = 120.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@contextmanager
def writing(folder: Path, room: bool) -> Iterator[tuple[socket.socket, Path]]:
    """Run QEMU with that guest; yield our end of its console, and its log."""
    disk, log = folder / "disk", folder / "log"
    disk.write_bytes(WRITER.ljust(510, b"\0") + b"\x55\xaa")
    ours, theirs = socket.socketpair()
    if room:
        make_room(theirs)
    command = [QEMU, "-nodefaults", "-display", "none", "-serial", "chardev:console"]
    command += ["-drive", f"file={disk},format=raw,if=floppy"]
    command += ["-chardev", f"socket,id=console,fd={theirs.fileno()},logfile={log}"]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as qemu:
        try:
            yield ours, log
        finally:
            qemu.kill()


def wait_for(log: Path, count: int, read: socket.socket | None = None) -> bytes:
    """Return the log, once it has *count* bytes after the firmware's."""
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        if read is not None:
            read.recv(64)
        data = log.read_bytes() if log.exists() else b""
        first = data.find(bytes(range(16)))
        if first >= 0 and len(data) - first >= count:
            return data[first:]
        time.sleep(0.001)
    raise AssertionError(f"{log} has no {count} bytes after {LIMIT_S:g} s")


def repeated(data: bytes) -> int:
    """Count the bytes that are not one more than the byte before."""
    return sum(b != (a + 1) % 256 for a, b in zip(data, data[1:], strict=False))


def test_late_reader_repeats_nothing(tmp_path: Path) -> None:
    with writing(tmp_path, room=True) as (_, log):
        assert repeated(wait_for(log, BYTES)) == 0


def test_without_room_a_character_is_logged_twice(tmp_path: Path) -> None:
    with writing(tmp_path, room=False) as (ours, log):
        assert repeated(wait_for(log, BYTES, ours)) > 0

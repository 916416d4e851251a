# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The UEFI shell as a guest of `rem-vm`: firmware goes on, too.

Goal: nothing of a guest's state needs an operating system. Method: a variable of the shell, which
is in memory only, is set by its serial line, the host's power is cut, and the shell
prints it. Negative proof: after a cut without a save the shell does not know it.
"""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.setup.ovmf import Ovmf
from lab.setup.products import need
from lab.testbed.vm_host import BARE, VmGuest, VmHost

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(600)]

NAME = "efi"
RAM_BYTES = 128 << 20
LIMIT_S = 120.0
KEY_S = 0.3  # for a character: the shell polls its serial port
POLL_S = 0.2
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # where and how it draws
SHELL = "Shell>"


class Line:
    """The guest's serial line since the power came."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._socket.settimeout(POLL_S)
        self._seen = ""
        self.passed = ""  # before what was waited for last

    def _read(self, for_s: float) -> None:
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s:
            with suppress(TimeoutError):
                self._seen += self._socket.recv(65536).decode("latin-1")

    def wait(self, text: str) -> None:
        """Until it has been printed behind all that was waited for before."""
        end_s = time.monotonic() + LIMIT_S
        while text not in CONTROL.sub("", self._seen):
            assert time.monotonic() < end_s, f"no {text!r} in {self._seen[-400:]!r}"
            self._read(POLL_S)
        self.passed, _, self._seen = CONTROL.sub("", self._seen).partition(text)

    def type(self, text: str) -> None:
        for character in f"{text}\r":
            self._socket.sendall(character.encode())
            self._read(KEY_S)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def host() -> Iterator[VmHost]:
    firmware = need(Ovmf())
    with VmHost("test-vm-efi", debian=False) as host:
        flash = host.files.directory / "vars.fd"
        shutil.copy(firmware.variables, flash)
        serial = f"unix:{host.media / 'serial.sock'},server=on,wait=off"
        words = [*BARE, "-serial", serial]
        words += ["-drive", f"if=pflash,format=raw,readonly=on,file={firmware.code}"]
        words += ["-drive", f"if=pflash,format=raw,file={flash}"]
        host.add(VmGuest(NAME, tuple(words), RAM_BYTES, disks=(flash,)))
        host.power_on()
        yield host


def mark(host: VmHost) -> None:
    """The shell is there, and has a variable that is in its memory only."""
    line = Line(host.media / "serial.sock")
    line.wait(SHELL)
    line.type("set -v mark 4711")
    line.wait(SHELL)
    line.close()


def test_shell_goes_on_with_its_variables(host: VmHost) -> None:
    mark(host)
    for _ in range(3):
        assert host.cut().stopped
        assert host.power_on()[NAME]["reason"] == "resume"
        line = Line(host.media / "serial.sock")
        line.type("echo is=%mark%")
        line.wait("\nis=4711")
        line.close()


def test_shell_that_was_not_saved_does_not_know_them(host: VmHost) -> None:
    mark(host)
    host.cut(announced=False)
    assert not host.power_on()[NAME]["resumed"]
    line = Line(host.media / "serial.sock")
    line.wait(SHELL)
    line.type("echo is=%mark%")
    line.wait("\nis=")
    line.wait(SHELL)
    assert "4711" not in line.passed
    line.close()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A `rem-vm` that ends leaves its guests running, and the next one takes them over.

Goal: the guest never stops, is saved again at the next cut, and nothing older is entered. Method:
memtest86+ as the guest, `rem-vm` gets SIGKILL, and another one is started. What cannot be taken
over is refused by name: a guest whose `rem-vm` runs, one that runs with other arguments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.testbed.vm_host import VmHost
from lab.testbed.waiting import wait_until
from tests.support import vm_blocks
from tests.support.nbd_server import Mode, NbdServer
from tests.support.vm_memtest import NAME, add_memtest, draws, errors

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

LIMIT_S = 60.0
HOLD_UP_US = 3_000_000  # a hold-up in which a guest is saved on a crowded host
NOTHING = ("already-consumed", "not-committed")  # to be entered


class OpenHost(VmHost):
    """Its QEMUs outlive `rem-vm`; they are killed by name."""

    def space(self) -> list[str]:
        return self.network.exec_prefix()

    def kill(self) -> None:
        for pid in self.qemus():
            os.kill(pid, signal.SIGKILL)
        super().kill()

    def qemus(self) -> list[int]:
        """Processes that have this host's sockets as arguments."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"qemu-system" in words[0] and any(map(self._is_ours, words)):
                    found.append(int(process.name))
        return sorted(found)

    def _is_ours(self, word: bytes) -> bool:
        return str(self.media).encode() in word

    def end_program(self) -> None:
        """SIGKILL for `rem-vm` alone."""
        assert self._host is not None
        self._host.kill()
        self._host.wait()
        self._host = None
        self.supply.power_off()

    def run_second(self) -> str:
        """What another `rem-vm` of the same folder says."""
        words = [*self.space(), str(self.program), "run", str(self.config)]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode != 0
        return done.stderr


@pytest.fixture
def host() -> Iterator[OpenHost]:
    with OpenHost("test-vm-takeover", debian=False) as host:
        add_memtest(host)
        host.power_on()
        assert draws(host, LIMIT_S)
        yield host


def test_guest_is_taken_over_and_saved_again(host: OpenHost) -> None:
    before = host.qemus()
    host.end_program()
    assert draws(host, LIMIT_S)
    guest = host.power_on()[NAME]
    assert guest["reason"] == "taken-over"
    assert guest["persistent"]
    assert host.qemus() == before
    assert draws(host, LIMIT_S)
    assert host.cut().stopped
    assert host.power_on()[NAME]["reason"] == "resume"
    assert draws(host, LIMIT_S)
    assert set(errors(host)) == {0}


def test_nothing_older_is_entered_after_that(host: OpenHost) -> None:
    assert host.status()[NAME]["persistent"]
    assert host.cut().stopped
    assert host.power_on()[NAME]["reason"] == "resume"
    host.end_program()
    host.power_on()
    assert draws(host, LIMIT_S)
    host.cut(announced=False)
    assert host.power_on()[NAME]["reason"] in NOTHING


def test_guest_that_a_save_had_stopped_goes_on(host: OpenHost) -> None:
    host.save()
    host.end_program()
    assert host.power_on()[NAME]["reason"] == "taken-over"
    assert draws(host, LIMIT_S)
    host.cut(announced=False)
    assert host.power_on()[NAME]["reason"] in NOTHING


@pytest.mark.in_turn
def test_image_that_waits_for_power_outlives_its_program(host: OpenHost) -> None:
    assert host.cut().stopped
    host.begin_power_on(is_good=False)
    wait_until(lambda: bool(host.qemus()), "QEMU waits for its image", LIMIT_S)
    host.end_program()
    assert host.power_on()[NAME]["reason"] == "resume"
    assert draws(host, LIMIT_S)


def test_host_whose_program_runs_is_refused(host: OpenHost) -> None:
    assert "it is in use" in host.run_second()
    assert draws(host, LIMIT_S)
    assert host.cut().stopped


def test_guest_that_runs_with_other_arguments_is_left_alone(host: OpenHost) -> None:
    text = host.config.read_text()
    host.end_program()
    host.config.write_text(text.replace("115200", "9600"))
    guest = host.power_on()[NAME]
    assert "held: it runs, and machine-differs" in guest["failed"]
    assert draws(host, LIMIT_S)
    host.end_program()
    host.config.write_text(text)
    assert host.power_on()[NAME]["reason"] == "taken-over"


def test_process_that_is_not_its_qemu_is_refused(host: OpenHost) -> None:
    """The lock is held by somebody else, and nobody answers."""
    host.kill()
    lock = Path(host.media / NAME / "lock")
    words = ["flock", "--no-fork", str(lock), "sleep", "60"]
    holder = subprocess.Popen(words)
    try:
        end_s = time.monotonic() + LIMIT_S
        while subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode == 0:
            assert time.monotonic() < end_s
            time.sleep(0.05)
        assert "it is in use" in host.power_on()[NAME]["failed"]
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.in_turn
def test_guest_that_was_cut_off_from_its_disk_goes_on_from_its_image(tmp_path: Path) -> None:
    """Its `rem-vm` ends between the save and the end of the power, which does not come."""
    with (
        OpenHost("test-vm-takeover-cut-off", debian=False, hold_up_us=HOLD_UP_US) as host,
        NbdServer(host.media / "nbd.sock", vm_blocks.DISK_BYTES) as server,
    ):
        initrd = vm_blocks.make_initrd(tmp_path)
        vm_blocks.add_blocks(host, initrd, vm_blocks.disk_words(server, "stop"), "replay")
        host.power_on()
        vm_blocks.wait_written(host)
        server.mode = Mode.HANG
        vm_blocks.wait_under_way(server)
        host.save()
        host.end_program()
        lost = vm_blocks.writes_of(server.cut())
        assert host.power_on()[vm_blocks.NAME]["reason"] == "resume"
        vm_blocks.wait_written(host)
        host.kill()
        server.cut()
        said = vm_blocks.said(host)
        assert set(lost) <= set(said.acknowledged)
        assert not said.failed
        assert not vm_blocks.wrong_blocks(server, said)

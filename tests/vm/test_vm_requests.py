# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests to a disk that are under way when the power of a guest's host drops.

Goal: they are completed, replayed or failed, as the guest's configuration has it, and a disk that
does not answer keeps a guest from being saved with the first only. Method: a guest writes numbered
blocks to an NBD server that hangs before the cut; it is known what the guest had asked for, what
was acknowledged, and what the server has. Negative proof: what a wrong replay would leave (nothing
written, an old write after a new one, an error for the guest) turns the same check red.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.testbed.vm_host import BARE, VmGuest, VmHost
from lab.testbed.waiting import wait_until
from tests.support import vm_blocks
from tests.support.nbd_server import Mode, NbdServer, QemuNbd, Request
from tests.support.vm_blocks import NAME, PLACES, WRITERS

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

HOLD_UP_US = 3_000_000
LIMIT_S = 60.0
COLD = ("not-committed", "already-consumed")
HANGS = [pytest.param(Mode.HANG, marks=pytest.mark.in_turn), Mode.HANG_WHEN_DONE]
CUTS, CUTS_IN_SOAK = 2, 25


@pytest.fixture(scope="module")
def initrd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vm_blocks.make_initrd(tmp_path_factory.mktemp("blocks"))


@pytest.fixture
def host() -> Iterator[VmHost]:
    with VmHost("test-vm-requests", debian=False, hold_up_us=HOLD_UP_US) as host:
        yield host


@pytest.fixture
def server(host: VmHost) -> Iterator[NbdServer]:
    with NbdServer(host.media / "nbd.sock", vm_blocks.DISK_BYTES) as server:
        yield server


def begin(host: VmHost, server: NbdServer, initrd: Path, requests: str) -> None:
    """On, with a guest that writes."""
    policy = {"complete": "", "replay": "stop", "fail": "report"}[requests]
    vm_blocks.add_blocks(host, initrd, vm_blocks.disk_words(server, policy), requests)
    guest = host.power_on()[NAME]
    assert guest["persistent"], guest["failed"]
    vm_blocks.wait_written(host)


def hang_and_cut(host: VmHost, server: NbdServer, hang: Mode) -> list[Request]:
    """The power goes with a request of each writer under way: these requests."""
    server.mode = hang
    vm_blocks.wait_under_way(server)
    assert host.cut().stopped
    lost = server.cut()
    assert len({writer for writer, _ in vm_blocks.writes_of(lost)}) == WRITERS
    return lost


def come_back(host: VmHost) -> None:
    assert host.power_on()[NAME]["reason"] == "resume"
    vm_blocks.wait_written(host, more=WRITERS * PLACES * 2)


def off(host: VmHost, server: NbdServer) -> vm_blocks.Said:
    """What the guest said to the end."""
    host.kill()
    server.cut()
    return vm_blocks.said(host)


def check_replayed(said: vm_blocks.Said, server: NbdServer, under_way: list[Request]) -> None:
    assert not said.failed
    assert set(vm_blocks.writes_of(under_way)) <= set(said.acknowledged)
    assert not vm_blocks.wrong_blocks(server, said)


@pytest.mark.parametrize("hang", HANGS)
@pytest.mark.parametrize("cuts", [CUTS, pytest.param(CUTS_IN_SOAK, marks=pytest.mark.soak)])
def test_replayed_requests_are_done_and_the_guest_sees_no_error(
    host: VmHost, server: NbdServer, initrd: Path, cuts: int, hang: Mode
) -> None:
    begin(host, server, initrd, "replay")
    under_way = []
    for _ in range(cuts):
        lost = hang_and_cut(host, server, hang)
        before = len(server.seen)
        come_back(host)
        under_way += lost
        # Each is issued again exactly as it was; nothing is promised of their order.
        again = server.seen[before:]
        assert all(one in again for one in lost)
    check_replayed(off(host, server), server, under_way)


@pytest.mark.parametrize("hang", HANGS)
@pytest.mark.parametrize("cuts", [CUTS, pytest.param(CUTS_IN_SOAK, marks=pytest.mark.soak)])
def test_failed_requests_are_those_under_way(
    host: VmHost, server: NbdServer, initrd: Path, cuts: int, hang: Mode
) -> None:
    begin(host, server, initrd, "fail")
    under_way = []
    for _ in range(cuts):
        under_way += vm_blocks.writes_of(hang_and_cut(host, server, hang))
        come_back(host)
    said = off(host, server)
    assert set(under_way) <= set(said.failed)
    assert len(said.failed) == len(set(said.failed))
    assert not set(said.failed) & set(said.acknowledged)
    # Others have not reached the disk: the guest asked for them while it was cut off.
    others = set(said.failed) - set(under_way)
    assert not others & {vm_blocks.write_in(one.data) for one in server.seen if one.data}
    assert not vm_blocks.wrong_blocks(server, said)


@pytest.mark.in_turn
@pytest.mark.parametrize("requests", ["replay", "fail"])
def test_requests_to_qemus_own_server(host: VmHost, initrd: Path, requests: str) -> None:
    """It hangs, and goes with the host's power."""
    image = host.files.directory / "blocks.img"
    image.write_bytes(bytes(vm_blocks.DISK_BYTES))
    with QemuNbd(host.media / "nbd.sock", image) as server:
        policy = "stop" if requests == "replay" else "report"
        vm_blocks.add_blocks(host, initrd, vm_blocks.disk_words(server, policy), requests)
        assert host.power_on()[NAME]["persistent"]
        vm_blocks.wait_written(host)
        server.hang()
        vm_blocks.wait_all_wait(host)
        before = vm_blocks.said(host)
        assert host.cut().stopped
        server.cut()
        server.start()
        come_back(host)
        host.kill()
        server.cut()
        said = vm_blocks.said(host)
        under_way = set(before.asked) - set(before.acknowledged)
        assert under_way <= set(said.acknowledged if requests == "replay" else said.failed)
        assert bool(said.failed) == (requests == "fail")
        assert not vm_blocks.wrong_blocks(server, said)


def test_guest_that_waits_for_a_disk_that_hangs_is_not_saved_and_keeps_no_other(
    host: VmHost, server: NbdServer, initrd: Path
) -> None:
    host.add(VmGuest("other", BARE, 16 << 20, -1))
    begin(host, server, initrd, "complete")
    server.mode = Mode.HANG
    vm_blocks.wait_under_way(server)
    host.save()
    guests = host.status()
    assert guests[NAME]["failed"] == "not saved: a disk has not answered its requests in time"
    assert guests["other"]["failed"] is None
    host.cut(announced=False)
    server.cut()
    guests = host.power_on()
    assert guests[NAME]["reason"] in COLD
    assert guests["other"]["reason"] == "resume"


@pytest.mark.in_turn
def test_guest_that_waits_goes_on_when_disk_and_power_are_back(
    host: VmHost, server: NbdServer, initrd: Path
) -> None:
    begin(host, server, initrd, "complete")
    server.mode = Mode.HANG
    vm_blocks.wait_under_way(server)
    host.save()
    host.supply.set_power_ok(True)
    server.answer_all()
    vm_blocks.wait_written(host)
    assert host.cut().stopped
    come_back(host)
    said = off(host, server)
    assert not said.failed
    assert not vm_blocks.wrong_blocks(server, said)


@pytest.mark.in_turn
@pytest.mark.parametrize("requests", ["replay", "fail"])
def test_guest_that_was_cut_off_goes_on_if_the_power_comes_back(
    host: VmHost, server: NbdServer, initrd: Path, requests: str
) -> None:
    begin(host, server, initrd, requests)
    server.mode = Mode.HANG
    vm_blocks.wait_under_way(server)
    host.save()
    lost = set(vm_blocks.writes_of(server.cut()))
    host.supply.set_power_ok(True)
    vm_blocks.wait_written(host)
    assert host.cut().stopped
    come_back(host)
    said = off(host, server)
    if requests == "replay":
        assert lost <= set(said.acknowledged)
        assert not said.failed
    else:
        assert lost <= set(said.failed)
    assert not vm_blocks.wrong_blocks(server, said)


@pytest.mark.in_turn
def test_guest_that_was_cut_off_waits_for_its_server(host: VmHost, initrd: Path) -> None:
    """The power comes back, and the server only later."""
    image = host.files.directory / "blocks.img"
    image.write_bytes(bytes(vm_blocks.DISK_BYTES))
    with QemuNbd(host.media / "nbd.sock", image) as server:
        vm_blocks.add_blocks(host, initrd, vm_blocks.disk_words(server, "stop"), "replay")
        assert host.power_on()[NAME]["persistent"]
        vm_blocks.wait_written(host)
        host.save()
        server.cut()
        host.supply.set_power_ok(True)
        wait_until(lambda: host.status()[NAME]["failed"], "its QEMU does not start", LIMIT_S)
        assert not host.status()[NAME]["runs"]
        server.start()
        vm_blocks.wait_written(host)
        assert host.status()[NAME]["failed"] is None
        host.kill()
        server.cut()
        assert not vm_blocks.said(host).failed
        assert not vm_blocks.wrong_blocks(server, vm_blocks.said(host))


def test_drop_of_power_ends_the_wait_for_a_server(host: VmHost) -> None:
    """The power comes back, a server takes the connection and hangs, and the power drops again:
    no guest loses what the other one waits for. Guests of no system."""
    image = host.files.directory / "blocks.img"
    image.write_bytes(bytes(vm_blocks.DISK_BYTES))
    with QemuNbd(host.media / "nbd.sock", image) as server:
        words = (*BARE, *vm_blocks.disk_words(server, "stop"))
        host.add(VmGuest("other", BARE, 16 << 20))
        host.add(VmGuest(NAME, words, 16 << 20, requests="replay"))
        assert all(one["persistent"] for one in host.power_on().values())
        server.hang()
        host.save()
        record = host.media / "other" / "record"
        saved = record.read_bytes()
        host.supply.set_power_ok(True)
        wait_until(lambda: record.read_bytes() != saved, "the other guest goes on", LIMIT_S)
        host.save()
        host.cut(announced=False)
        server.cut()
        server.start()
        assert {one["reason"] for one in host.power_on().values()} == {"resume"}


@pytest.mark.in_turn
def test_errors_of_a_disk_are_not_seen_by_a_guest_whose_requests_are_replayed(
    host: VmHost, server: NbdServer, initrd: Path
) -> None:
    begin(host, server, initrd, "replay")
    for _ in range(3):
        server.close_connections()
        vm_blocks.wait_written(host)
    said = off(host, server)
    assert not said.failed
    assert not vm_blocks.wrong_blocks(server, said)


def test_disk_that_does_not_allow_the_choice_is_named(host: VmHost, server: NbdServer) -> None:
    file = host.media / "file.img"
    file.write_bytes(bytes(vm_blocks.DISK_BYTES))
    disks = {
        "no NBD connection": ("-drive", f"file={file},format=raw,if=virtio,cache=writethrough"),
        "has werror=report: give werror=stop": vm_blocks.disk_words(server, "report"),
        "may have a write cache": vm_blocks.disk_words(server, "stop", write_cache="on"),
    }
    for number, words in enumerate(disks.values()):
        host.add(VmGuest(f"g{number}", (*BARE, *words), 16 << 20, requests="replay"))
    host.add(VmGuest("without", BARE, 16 << 20, requests="replay"))
    guests = host.power_on()
    for number, why in enumerate(disks):
        guest = guests[f"g{number}"]
        assert guest["runs"]
        assert not guest["persistent"]
        assert guest["failed"].startswith('requests = "replay" cannot be kept: ')
        assert why in guest["failed"]
    assert guests["without"]["persistent"]


# Negative proofs: what the checks above would see.


def after_one_cut(
    host: VmHost, server: NbdServer, initrd: Path, requests: str
) -> tuple[vm_blocks.Said, list[Request]]:
    """What the guest said to the end, and the requests that were under way."""
    begin(host, server, initrd, requests)
    lost = hang_and_cut(host, server, Mode.HANG)
    come_back(host)
    return off(host, server), lost


@pytest.mark.in_turn
def test_replayed_requests_that_are_dropped_are_found(
    host: VmHost, server: NbdServer, initrd: Path
) -> None:
    begin(host, server, initrd, "replay")
    lost = hang_and_cut(host, server, Mode.HANG)
    server.mode = Mode.PRETEND
    assert host.power_on()[NAME]["reason"] == "resume"
    vm_blocks.wait_written(host, more=WRITERS)
    said = off(host, server)
    with pytest.raises(AssertionError, match="place"):
        check_replayed(said, server, lost)


@pytest.mark.in_turn
def test_old_write_after_a_new_one_is_found(host: VmHost, server: NbdServer, initrd: Path) -> None:
    """By a server that goes on with requests of a connection that has ended."""
    said, lost = after_one_cut(host, server, initrd, "replay")
    check_replayed(said, server, lost)
    server.do_late(lost)
    with pytest.raises(AssertionError, match="place"):
        check_replayed(said, server, lost)


@pytest.mark.in_turn
def test_errors_are_found(host: VmHost, server: NbdServer, initrd: Path) -> None:
    said, lost = after_one_cut(host, server, initrd, "fail")
    with pytest.raises(AssertionError):
        check_replayed(said, server, lost)

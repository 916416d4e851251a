# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The fence of a guest with peers: after each absence its clients wait until a program lets them.

Goal: no frame passes between a guest that is back and its clients before the program of its
fence has succeeded; connections outlive that. Method: the program looks for a file. Negative
proof: without a fence the guest answers at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.testbed.vm_host import DEBIAN, Fence, VmHost

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

SHUT_S = 3.0  # a guest that is not kept away answers far earlier
LIMIT_S = 60.0
# A server that answers each line by the same one.
SERVE = """cat >/run/echo.py <<'END'
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
server = socketserver.ThreadingTCPServer(("", 7), Echo)
open("/run/echo.is-there", "w").close()
server.serve_forever()
END
python3 /run/echo.py </dev/null >/dev/null 2>&1 &
until test -e /run/echo.is-there; do sleep 0.1; done"""
PORT = 7


@dataclass
class FencedHost(VmHost):
    """Its guest's program looks for the file `open` of the host's folder."""

    @property
    def flag(self) -> Path:
        return self.media / "open"

    def fence(self) -> Fence:
        return Fence("rem-net", ("test", "-e", str(self.flag)))


@pytest.fixture(scope="module")
def host() -> Iterator[FencedHost]:
    with FencedHost("test-vm-fence") as host:
        host.power_on()
        host.wait_up()
        host.run_in_guest(SERVE)
        host.guest.close()
        yield host


def is_fenced(host: VmHost) -> bool:
    return bool(host.status()[DEBIAN]["fenced"])


def wait_open(host: FencedHost) -> None:
    host.flag.touch()
    end_s = time.monotonic() + LIMIT_S
    while is_fenced(host):
        assert time.monotonic() < end_s, "the fence does not open"
        time.sleep(0.1)


def test_guest_that_boots_cold_has_clients_at_once(host: FencedHost) -> None:
    assert not is_fenced(host)
    host.connect(PORT).close()


def ask_over_a_cut(host: FencedHost, fenced: bool) -> None:
    """A client's question meets a guest that is back, and is answered when the way is open."""
    host.flag.unlink(missing_ok=True)
    with host.connect(PORT) as client:
        client.sendall(b"before\n")
        assert client.recv(100) == b"before\n"
        assert host.cut().stopped
        client.sendall(b"after\n")
        if not fenced:
            host.flag.touch()
        assert host.power_on()[DEBIAN]["reason"] == "resume"
        client.settimeout(SHUT_S if fenced else LIMIT_S)
        if fenced:
            with pytest.raises(TimeoutError):
                client.recv(100)
            assert is_fenced(host)
            wait_open(host)
            client.settimeout(LIMIT_S)
        assert client.recv(100) == b"after\n"
    assert not is_fenced(host)


def test_clients_wait_until_the_program_succeeds(host: FencedHost) -> None:
    ask_over_a_cut(host, fenced=True)


@pytest.mark.in_turn
def test_clients_do_not_wait_if_it_succeeds_at_once(host: FencedHost) -> None:
    ask_over_a_cut(host, fenced=False)


@pytest.mark.in_turn
def test_guest_that_is_cut_behind_its_fence_is_behind_it_again(host: FencedHost) -> None:
    host.flag.unlink(missing_ok=True)
    for _ in range(2):
        assert host.cut().stopped
        assert host.power_on()[DEBIAN]["reason"] == "resume"
        assert is_fenced(host)
    wait_open(host)
    host.connect(PORT, LIMIT_S).close()


@pytest.mark.in_turn
def test_fence_is_shut_if_the_power_comes_back_before_it_has_gone(host: FencedHost) -> None:
    host.flag.unlink(missing_ok=True)
    host.save()
    host.supply.set_power_ok(True)
    end_s = time.monotonic() + LIMIT_S
    while not is_fenced(host):
        assert time.monotonic() < end_s
        time.sleep(0.1)
    wait_open(host)
    host.connect(PORT, LIMIT_S).close()

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Console watching, boot note, status text, network bookkeeping."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lab import format as fmt
from lab.errors import Exit, HangError, InfraError, RemError
from lab.machine.config import Forward, MachineConfig
from lab.machine.console import Console, kernel_warnings
from lab.machine.files import MachineFiles, MachineLock
from lab.machine.forward import Forwarder
from lab.machine.network import (
    Network,
    TapNetwork,
    UserNetwork,
    network_from_state,
    network_to_state,
)
from lab.machine.status import decision_line
from lab.record.boot_note import read_boot_note

GOLDEN = fmt.HEADER_DIR / "golden"
LIMIT_S = 30.0


@pytest.mark.parametrize(
    "line",
    [
        "[    1.0] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x1/0x2",
        "BUG: sleeping function called from invalid context",
        "Oops: general protection fault, probably for non-canonical address",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "INFO: task kworker/0:1:9 blocked for more than 120 seconds.",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
        "Kernel panic - not syncing: x",
        " Call Trace:",
    ],
)
def test_kernel_warnings_are_seen(line: str) -> None:
    assert kernel_warnings(f"all well\n{line}\nall well\n") == [line.strip()]


@pytest.mark.parametrize(
    "line",
    [
        "rcu: Preemptible hierarchical RCU implementation.",
        "Spectre V2 : WARN nothing",
        "hrtimer: interrupt took 3 ns",
        "ACPI: BIOS IRQ0 pin2 override ignored.",
        "Run /sbin/rem-init as init process",
    ],
)
def test_ordinary_lines_are_no_warnings(line: str) -> None:
    assert kernel_warnings(line) == []


@pytest.fixture
def console() -> Iterator[tuple[Console, socket.socket]]:
    ours, theirs = socket.socketpair()
    made = Console(ours)
    yield made, theirs
    theirs.close()
    made.close()


def test_console_finds_a_pattern_that_comes_in_pieces(
    console: tuple[Console, socket.socket],
) -> None:
    made, machine = console
    threading.Timer(0.02, machine.send, [b"-READY"]).start()
    machine.send(b"REM-GUEST")
    assert made.expect(r"REM-GUEST-(\w+)", LIMIT_S).group(1) == "READY"
    with pytest.raises(HangError, match="its last line is 'REM-GUEST-READY'"):
        made.expect("READY", 0.05, since=made.position())


def test_console_of_a_dead_machine_waits_for_nothing(
    console: tuple[Console, socket.socket],
) -> None:
    made, machine = console
    machine.send(b"hello\n")
    machine.close()
    with pytest.raises(InfraError, match="went off"):
        made.expect("never", 60)
    made.send(b"typed to nobody")


def test_boot_note_names_reason_and_difference() -> None:
    note = read_boot_note((GOLDEN / "boot_note.bin").read_bytes())
    assert note is not None and not note.resumed
    assert note.reason == "COLD_DISK_DIFFERS"
    text = decision_line(asdict(note))
    assert text.startswith("cold boot: disk differs; image has disk 0x3040506.258 = ")
    assert "machine has kernel 0x0.0 = " in text


def test_held_image_is_in_the_status() -> None:
    note = read_boot_note((GOLDEN / "boot_note.bin").read_bytes())
    assert note is not None and note.held == "COLD_PCI_DIFFERS"
    held = asdict(replace(note, reason="HOLD"))
    assert decision_line(held).startswith(
        "holds image 16909061 (answer on the console): pci differs"
    )
    assert "held before: pci differs; image has disk" in decision_line(held | {"reason": "RESUME"})


@pytest.mark.parametrize("damage", [0, 12, 100, 156])
def test_damaged_boot_note_is_none(damage: int) -> None:
    raw = bytearray((GOLDEN / "boot_note.bin").read_bytes())
    raw[damage] ^= 1
    assert read_boot_note(bytes(raw)) is None


def test_lock_has_one_holder(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    assert MachineLock.owner_pid(files) is None
    lock = MachineLock(files)
    assert MachineLock.owner_pid(files) == os.getpid()
    with pytest.raises(RemError, match=f"process {os.getpid()}") as caught:
        MachineLock(files)
    assert caught.value.exit_code == Exit.INFRASTRUCTURE
    lock.release()
    assert MachineLock.owner_pid(files) is None
    MachineLock(files).release()


def test_half_written_state_is_never_read(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    files.write_state({"state": "cut"})
    (tmp_path / "state.new").write_text('{"sta')
    assert files.read_state() == {"state": "cut"}


@pytest.mark.parametrize(
    "network", [TapNetwork("rem-x"), UserNetwork(2222, (Forward(8080, 80),), "because")]
)
def test_network_is_remembered(network: Network) -> None:
    config = MachineConfig(name="m", kernel=Path("k"), forwards=(Forward(8080, 80),))
    again = network_from_state(network_to_state(network), config)
    assert network_to_state(again) == network_to_state(network)
    assert again.netdev() == network.netdev()


def test_user_network_reaches_only_forwarded_ports() -> None:
    network = UserNetwork(2222, (Forward(8080, 80),), None)
    assert network.address(22) == ("127.0.0.1", 2222)
    assert network.address(80) == ("127.0.0.1", 8080)
    with pytest.raises(RemError, match="--forward"):
        network.address(6379)


class _Loopback(UserNetwork):
    """A guest on this host, for the forwarder."""

    def __init__(self, port: int) -> None:
        super().__init__(1, (), None)
        self._port = port

    def address(self, guest_port: int) -> tuple[str, int]:
        del guest_port
        return ("127.0.0.1", self._port)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_forwarder_carries_both_ways_and_each_end() -> None:
    guest = socket.create_server(("127.0.0.1", 0))
    near_port = _free_port()
    forwarder = Forwarder(_Loopback(guest.getsockname()[1]), Forward(near_port, 80))
    with socket.create_connection(("127.0.0.1", near_port), LIMIT_S) as client:
        served, _ = guest.accept()
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        served.settimeout(LIMIT_S)
        assert served.recv(100) == b"question"
        assert served.recv(100) == b""
        served.sendall(b"answer")
        served.close()
        assert client.recv(100) == b"answer"
        assert client.recv(100) == b""
    with pytest.raises(InfraError, match=f"port {near_port} "):
        Forwarder(_Loopback(1), Forward(near_port, 80))
    forwarder.close()
    guest.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", near_port), LIMIT_S)


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason="needs root and /dev/net/tun"
)
def test_namespaces_have_the_same_addresses_side_by_side() -> None:
    made = [TapNetwork(f"rem-test-{os.getpid()}-{i}") for i in range(2)]
    try:
        for network in made:
            network.setup()
            network.setup()  # an existing namespace is kept
        sockets = [network.make_socket() for network in made]
        for sock in sockets:
            sock.bind(("10.77.0.1", 7000))  # the same address and port, in each
            sock.listen()
        for network in made:
            client = network.make_socket()
            client.settimeout(LIMIT_S)
            client.connect(("10.77.0.1", 7000))
            client.close()
        for sock in sockets:
            sock.accept()[0].close()
            sock.close()
    finally:
        for network in made:
            network.teardown()
    time.sleep(0)
    assert not any((Path("/run/netns") / network.namespace).exists() for network in made)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The supply's end of the wire, against a socket pair in place of a UART."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from lab import format as fmt
from lab.machine.supply import HostPacedClock, PowerSupply

STOPPED = bytes([fmt.CONST["REM_PWR_STOPPED"]])
LIMIT_S = 30.0


@pytest.fixture
def wired() -> Iterator[tuple[PowerSupply, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(LIMIT_S)
    supply = PowerSupply()
    supply.power_on(ours)
    yield supply, theirs
    supply.power_off()
    theirs.close()


def echo(uart: socket.socket) -> int:
    status = uart.recv(1)[0]
    uart.send(bytes([fmt.pwr_echo(status)]))
    return status


def eventually(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.001)


def test_power_on_is_sent_until_echoed(wired: tuple[PowerSupply, socket.socket]) -> None:
    supply, uart = wired
    first = uart.recv(1)[0]
    assert first & fmt.CONST["REM_PWR_OK"]
    assert uart.recv(1)[0] == first  # not echoed: repeated
    assert echo(uart) == first
    assert supply.wire is not None
    eventually(supply.wire.echoed.is_set)
    uart.settimeout(0.1)
    with pytest.raises(TimeoutError):
        while True:  # at most what was in transit
            uart.recv(1)


def test_machine_that_was_reset_hears_the_status_again(
    wired: tuple[PowerSupply, socket.socket],
) -> None:
    supply, uart = wired
    first = echo(uart)
    assert supply.wire is not None
    eventually(supply.wire.echoed.is_set)
    supply.machine_was_reset()
    while echo(uart) != first:  # what was in transit is the same byte
        pass
    eventually(supply.wire.echoed.is_set)
    supply.power_off()
    supply.machine_was_reset()  # nobody listens, and nothing happens


def test_never_more_than_one_byte_waits_for_the_uart(
    wired: tuple[PowerSupply, socket.socket],
) -> None:
    supply, uart = wired
    time.sleep(0.05)  # ten repeats
    supply.set_power_ok(False)
    time.sleep(0.05)
    old = uart.recv(4096)
    assert len(old) == 1  # sent before the change
    new = uart.recv(1)[0]
    assert new == supply.status()
    assert not new & fmt.CONST["REM_PWR_OK"]


def test_wrong_echo_acknowledges_nothing(wired: tuple[PowerSupply, socket.socket]) -> None:
    supply, uart = wired
    status = uart.recv(1)[0]
    stale = fmt.pwr_echo(fmt.pwr_status(True, fmt.Charge.FULL, supply.sequence + 1))
    uart.send(bytes([stale, status, fmt.pwr_echo(status) ^ 0x80]))
    wire = supply.wire
    assert wire is not None
    eventually(lambda: wire.ignored_bytes == 3)
    assert not wire.echoed.is_set()


def test_letter_of_firmware_that_looks_like_an_echo_acknowledges_nothing(
    wired: tuple[PowerSupply, socket.socket],
) -> None:
    """Firmware reads the status as a key, and prints to the same port what is on its screen."""
    supply, uart = wired
    status = uart.recv(1)[0]
    letter = bytes([fmt.pwr_echo(status)])
    assert supply.wire is not None
    wire = supply.wire
    uart.send(letter + b"!")
    eventually(lambda: wire.ignored_bytes == 1)
    assert not wire.echoed.is_set()
    assert uart.recv(4096)[-1] == status
    assert uart.recv(1)[0] == status, "it is repeated, for the loader"
    echo(uart)
    eventually(wire.echoed.is_set)


def test_drop_ends_when_stopped_comes(wired: tuple[PowerSupply, socket.socket]) -> None:
    supply, uart = wired
    echo(uart)

    def machine() -> None:
        while echo(uart) & fmt.CONST["REM_PWR_OK"]:
            pass
        uart.send(STOPPED)

    thread = threading.Thread(target=machine)
    thread.start()
    taken_ns = supply.drop(HostPacedClock(), 4_000_000_000)
    thread.join()
    assert taken_ns is not None
    assert 0 < taken_ns < 4_000_000_000
    assert supply.wire is not None
    assert supply.wire.echoed.is_set()


def test_drop_ends_with_the_hold_up(wired: tuple[PowerSupply, socket.socket]) -> None:
    supply, _ = wired
    begin_s = time.monotonic()
    assert supply.drop(HostPacedClock(), 50_000_000) is None
    assert 0.05 <= time.monotonic() - begin_s < LIMIT_S


def test_drop_ends_when_qemu_ends(wired: tuple[PowerSupply, socket.socket]) -> None:
    supply, uart = wired
    threading.Timer(0.05, uart.close).start()
    begin_s = time.monotonic()
    assert supply.drop(HostPacedClock(), 60_000_000_000) is None
    assert time.monotonic() - begin_s < LIMIT_S


def test_no_status_has_the_stopped_byte_as_its_echo() -> None:
    sequences = set()
    for start in range(8):
        for charge in fmt.Charge:
            supply = PowerSupply(sequence=start)
            supply.set_charge(charge)
            for power_ok in (True, False, True, False):
                supply.set_power_ok(power_ok)
                sequences.add(supply.sequence)
                assert fmt.pwr_echo(supply.status()) != fmt.CONST["REM_PWR_STOPPED"]
    assert sequences == set(range(8))


def test_sequence_counts_changes_and_nothing_else() -> None:
    supply = PowerSupply()
    supply.set_power_ok(True)
    supply.set_power_ok(True)
    assert supply.sequence == 1
    supply.set_charge(fmt.Charge.STOP)
    assert supply.sequence == 2

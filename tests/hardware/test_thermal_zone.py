# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine whose thermal zone is at its last trip point promises nothing, and promises
again when it has cooled down. Its zone keeps a machine neither from the fast path nor from going
on over a cut. QEMU's own machine has none.

Method: a table of ACPI with one zone, whose temperature is what a test device's port has; QEMU's
monitor writes it, and `remctl health` looks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.machine.console import kernel_warnings
from lab.setup.package_tools import PackageTools
from lab.setup.products import Kernel, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from tests.support.claims import BOOT_LIMIT_S, machine_name

KERNEL = "devices-mutants"
PORT = 0xE0  # of QEMU's pc-testdev: it keeps what is written
HOT_C = 95
SYSFS = "/sys/kernel/remanence"

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]


def deci_kelvin(celsius: int) -> int:
    return celsius * 10 + 2732


def package(code: bytes) -> bytes:
    """With its length before it, which counts itself (ACPI 6.5, 20.2.4)."""
    bytes_ = len(code) + 1
    if bytes_ < 64:
        return bytes([bytes_]) + code
    bytes_ += 1
    return bytes([0x40 | bytes_ & 15, bytes_ >> 4]) + code


def zone() -> bytes:
    """An SSDT: Scope (\\_TZ) { ThermalZone (TZ00) { Method (_TMP) ..., Name (_HOT, ...) } }."""
    region = b"\x5b\x80REGN" + b"\x01" + bytes([0x0A, PORT, 0x0A, 4])  # SystemIO
    field = b"\x5b\x81" + package(b"REGN" + b"\x03" + b"TVAL" + b"\x20")  # by 32 bits
    method = b"\x14" + package(b"_TMP" + b"\x00" + b"\xa4TVAL")
    hot = b"\x08_HOT\x0c" + struct.pack("<I", deci_kelvin(HOT_C))
    inner = b"\x5b\x85" + package(b"TZ00" + region + field + method + hot)
    code = b"\x10" + package(b"\\_TZ_" + inner)
    head = struct.pack("<4sIBB6s8sIII", b"SSDT", 36 + len(code), 2, 0, b"TEST", b"THERMAL", 1, 0, 0)
    table = bytearray(head + code)
    table[9] = -sum(table) % 256
    return bytes(table)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    table = tmp_path / "thermal.aml"
    table.write_bytes(zone())
    config = make_config(machine_name("thermal"), kernel=need(Kernel(KERNEL)).bz_image)
    config = replace(config, acpi_table=table, devices=("pc-testdev",))
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot(paused=True)
        heat(made, 40)
        assert made.qemu is not None
        made.qemu.qmp.execute("cont")
        made.wait_up(BOOT_LIMIT_S)
        made.guest.put(need(PackageTools()) / "remctl", "/usr/sbin/remctl")
        made.run_in_guest("chmod 755 /usr/sbin/remctl")
        yield made
        assert kernel_warnings(consoles(made)) == []


def heat(machine: Machine, celsius: int) -> None:
    assert machine.qemu is not None
    machine.qemu.qmp.monitor(f"o /w {PORT:#x} {deci_kelvin(celsius)}")


def health(machine: Machine) -> str:
    """What a pass says of the zone, after it has told the kernel."""
    machine.run_in_guest("remctl health", check=False)
    lines = machine.run_in_guest("remctl health --dry-run", check=False).stdout.splitlines()
    return next(line for line in lines if line.startswith("thermal:"))


def test_zone_at_its_trip_point_disarms_the_machine(machine: Machine) -> None:
    assert health(machine) == "thermal: ok"
    assert machine.run_in_guest(f"cat {SYSFS}/stop_mode {SYSFS}/status").stdout == "fast\narmed\n"
    cut_and_resume(machine)
    heat(machine, HOT_C)
    hot = f"thermal_zone0 (acpitz) is hot, {HOT_C} C"
    assert health(machine) == f"thermal: bad {hot}"
    assert machine.run_in_guest(f"cat {SYSFS}/status").stdout == f"unhealthy: thermal: {hot}\n"
    heat(machine, HOT_C - 1)
    assert health(machine) == "thermal: ok"
    assert machine.run_in_guest(f"cat {SYSFS}/status").stdout == "armed\n"


def test_machine_without_a_zone_has_none() -> None:
    config = make_config(machine_name("cool"), kernel=need(Kernel(KERNEL)).bz_image)
    with Machine.create(config, destroy_on_exit=True) as it:
        it.boot()
        it.wait_up(BOOT_LIMIT_S)
        assert it.run_in_guest("ls /sys/class/thermal | grep -c zone; true").stdout == "0\n"

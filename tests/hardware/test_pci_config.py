# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: after Go each PCI function is configured as before the cut, also in the registers of its
capabilities: error reporting, access control, address translation, message signalled interrupts. An
error of a port still raises its interrupt. A Stop takes devices off the bus before the bridges that
they are behind, and leaves host bridges alone.

Method: a machine with a root port that reports errors, and behind it a device that may translate
addresses. The guest reads all of configuration space before and after the cut; registers of status
are left out. QEMU lets the port detect an error, and logs what a Stop writes. Its port has no
interrupt of wake-up events: that bit of the root control register stays zero, so it is not shown.
Negative proofs: planted bugs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

PORT = "0000:00:05.0"
DEVICES = (
    "pcie-root-port,id=rp0,chassis=1,slot=1,addr=5",
    "virtio-rng-pci,bus=rp0,disable-legacy=on,iommu_platform=on,ats=on",
)
READ = """python3 -c '
import json, pathlib
print(json.dumps({d.name: (d / "config").read_bytes().hex()
                  for d in pathlib.Path("/sys/bus/pci/devices").iterdir()}))'"""

COMMAND_AT = 0x04
STATUS_AT, BRIDGE_STATUS_AT, HEADER_AT, CAPABILITIES_AT = 0x06, 0x1E, 0x0E, 0x34
CLASS_AT = 0x0A
EXTENDED_AT = 0x100
# Capability: its registers of status, as ranges from its start.
STANDARD_STATUS = {
    0x01: [(0x05, 0x06)],  # power management
    0x05: [(0x10, 0x18)],  # MSI: pending
    0x10: [(0x0A, 0x0C), (0x12, 0x14), (0x1A, 0x1C), (0x20, 0x24), (0x32, 0x34), (0x3A, 0x3C)],
}
# Of the ISA bridge: where legacy interrupts go, which firmware sets up. A kernel with an I/O APIC
# uses none, turns them off at boot, and leaves them on after a suspend, too.
ISA_BRIDGE, LEGACY_ROUTES = bytes([0x01, 0x06]), [(0x60, 0x64), (0x68, 0x6C)]
EXTENDED_STATUS = {0x0001: [(0x04, 0x08), (0x10, 0x14), (0x1C, 0x2C), (0x30, 0x38)]}
MSI_X_CONTROL, MSI_X_ENABLE = (0x11, 0x02), 1 << 15
ERRORS_ROOT_COMMAND, ACS_CONTROL, ATS_CONTROL = (0x0001, 0x2C), (0x000D, 0x06), (0x000F, 0x06)

BAD_TLP = 1 << 6  # an error that the hardware corrects
ERRORS = f"/sys/bus/pci/devices/{PORT}/aer_rootport_total_err_cor"
INTERRUPT_LIMIT_S = 10.0
POLL_S = 0.1

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

Spaces = dict[str, bytes]


def word(space: bytes, at: int) -> int:
    return int.from_bytes(space[at : at + 2], "little")


def standard(space: bytes) -> Iterator[tuple[int, int]]:
    """(capability, offset)"""
    at = space[CAPABILITIES_AT] & 0xFC
    while at:
        yield space[at], at
        at = space[at + 1] & 0xFC


def extended(space: bytes) -> Iterator[tuple[int, int]]:
    at = EXTENDED_AT if len(space) > EXTENDED_AT else 0
    while at and word(space, at):
        yield word(space, at), at
        at = word(space, at + 2) >> 4


def register(space: bytes, which: tuple[int, int]) -> int | None:
    """The word of an extended capability, if the function has it."""
    places = [at for capability, at in extended(space) if capability == which[0]]
    return word(space, places[0] + which[1]) if places else None


def place(space: bytes, which: tuple[int, int]) -> int:
    """The offset of a register of a capability that the function must have."""
    return next(at for capability, at in standard(space) if capability == which[0]) + which[1]


def without_status(space: bytes) -> bytes:
    kept = bytearray(space)
    ranges = [(STATUS_AT, STATUS_AT + 2)]
    if space[HEADER_AT] & 0x7F == 1:
        ranges.append((BRIDGE_STATUS_AT, BRIDGE_STATUS_AT + 2))
    if space[CLASS_AT : CLASS_AT + 2] == ISA_BRIDGE:
        ranges += LEGACY_ROUTES
    for found, known in ((standard(space), STANDARD_STATUS), (extended(space), EXTENDED_STATUS)):
        for capability, at in found:
            ranges += [(at + low, at + high) for low, high in known.get(capability, [])]
    for low, high in ranges:
        kept[low:high] = bytes(high - low)
    return bytes(kept)


def spaces(it: Bed) -> Spaces:
    shown = it.machine.run_in_guest(READ).stdout
    return {name: bytes.fromhex(text) for name, text in json.loads(shown).items()}


def check_configuration_is_kept(it: Bed) -> None:
    """Inner check: a cut changes no register but those of status."""
    before = spaces(it)
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.resume()
    after = spaces(it)
    assert set(after) == set(before)
    for name, space in before.items():
        was, now = without_status(space), without_status(after[name])
        differs = [f"{at:#x}: {was[at]:02x} -> {now[at]:02x}" for at in range(len(was))
                   if was[at] != now[at]]  # fmt: skip
        if differs:
            raise BrokenError("config-differs", f"{name} {', '.join(differs[:16])}")


def check_error_raises_its_interrupt(it: Bed) -> None:
    """Inner check: the kernel hears of an error of the port."""

    def heard() -> int:
        return int(it.machine.run_in_guest(f"cat {ERRORS}").stdout)

    before = heard()
    assert it.machine.qemu is not None
    answer = it.machine.qemu.qmp.monitor(f"pcie_aer_inject_error -c rp0 {BAD_TLP:#x}")
    assert answer.startswith("OK"), answer
    end_s = time.monotonic() + INTERRUPT_LIMIT_S
    while heard() == before:
        if time.monotonic() > end_s:
            raise BrokenError("config-differs", f"{PORT}: an error raises no interrupt")
        time.sleep(POLL_S)


def commands_of_a_stop(it: Bed) -> list[str]:
    """The functions whose command register a Stop writes, in its order."""
    assert it.machine.qemu is not None
    it.machine.qemu.qmp.execute("trace-event-set-state", name="pci_cfg_write", enable=True)
    it.machine.guest.close()
    log = it.machine.qemu.log
    assert it.machine.cut().stopped
    text = log.read_text(errors="replace")
    found = re.findall(r"pci_cfg_write \S+ (\S+) @0x([0-9a-f]+) <-", text)
    return [name for name, at in found if int(at, 16) == COMMAND_AT]


def check_order_of_a_stop(it: Bed) -> None:
    """Inner check: what is behind the port is off the bus before the port is."""
    names = {name: f"{name.removeprefix('0000:')}" for name in spaces(it)}
    child = next(name for name in names if not name.startswith("0000:00"))
    order = commands_of_a_stop(it)
    assert names[PORT] in order and names[child] in order, order
    assert "00:00.0" not in order, "the host bridge was written to"
    if order.index(names[PORT]) < order.index(names[child]):
        raise BrokenError("stop-order", f"the port is off before the device behind it: {order}")


@contextmanager
def machine(purpose: str, mutants: bool = False) -> Iterator[Bed]:
    with booted_bed(purpose, mutants=mutants, devices=DEVICES) as it:
        shown = it.machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout
        assert shown.strip() == "fast", shown
        yield it


@pytest.mark.in_turn
def test_configuration_is_kept() -> None:
    with machine("pci") as it:
        before = spaces(it)
        # Otherwise nothing would be shown: the kernel has set these up.
        assert any(register(space, ERRORS_ROOT_COMMAND) for space in before.values())
        assert any(register(space, ACS_CONTROL) for space in before.values())
        assert any(register(space, ATS_CONTROL) for space in before.values())
        port = before[PORT]
        assert word(port, place(port, MSI_X_CONTROL)) & MSI_X_ENABLE
        for _ in range(2):
            check_configuration_is_kept(it)
        check_error_raises_its_interrupt(it)
        assert kernel_warnings(it.machine.console.text()) == []
        check_order_of_a_stop(it)
        it.resume()
        assert it.kept()


@pytest.mark.in_turn
def test_bug_is_found() -> None:
    with machine("pci-bug", mutants=True) as it:
        check_configuration_is_kept(it)
        check_error_raises_its_interrupt(it)
        check_order_of_a_stop(it)
        it.resume()
        plant(it.machine, "skip-caps")
        with must_be_found("skip-caps"):
            check_configuration_is_kept(it)
        plant(it.machine, "bridge-first")
        with must_be_found("bridge-first"):
            check_order_of_a_stop(it)
        it.resume()
        port = spaces(it)[PORT]
        enable_at = place(port, MSI_X_CONTROL) + 1
        plant(it.machine, "skip-bridge-vectors")
        with must_be_found("skip-bridge-vectors", rf"{PORT} {enable_at:#x}: 80 -> 00$"):
            check_configuration_is_kept(it)
        with must_be_found("skip-bridge-vectors", "an error raises no interrupt"):
            check_error_raises_its_interrupt(it)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what a CPU and the platform lose with the power is after Go as it was before: registers of
a hypervisor (AMD's: EFER.SVME, VM_HSAVE_PA), control of machine checks, enabled events of ACPI's
fixed hardware, the clock's alarm. A CPU that could use 5-level page tables resumes with four. On a
CPU with older microcode the image does not continue, and the reason names that. A virtio device
that holds state keeps the machine on stop=dpm, which names it.

Method: the guest sets registers through /dev/cpu/N/msr and sysfs, QEMU's monitor reads ports; then
a cut. In a new QEMU process each of them has another value, and the microcode that it is given.
Negative proofs: planted bugs. Each must lose what it is named for and nothing else; the same kernel
with none of them on must lose nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from lab.machine.config import CPU_MODEL
from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.resets import check_go_is_given_up
from tests.support.trials import CPUS, Bed, booted_bed

SYSFS = "/sys/kernel/remanence"
ALARM = "/sys/class/rtc/rtc0/wakealarm"
EFER, HSAVE_PA = 0xC0000080, 0xC0010117
MCG_CTL, MC3_CTL = 0x17B, 0x400 + 4 * 3
SVME = 1 << 12
PM1_ENABLE_PORT = 0x602
# Later than the cut, earlier than the end of the test.
ALARM_IN_S = 12
ALARM_LIMIT_S = 60.0
POLL_S = 0.5
MICROCODE = 0x20  # any revision

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@contextmanager
def machine(purpose: str, mutants: bool = False) -> Iterator[Bed]:
    options = {"cpu_model": f"{CPU_MODEL},+svm,+la57", "mutants": mutants}
    with booted_bed(purpose, cmdline_extra="nokaslr msr.allow_writes=on", **options) as it:
        yield it


def msr(it: Bed, cpu: int, index: int) -> int:
    words = f"if=/dev/cpu/{cpu}/msr bs=8 count=1 iflag=skip_bytes skip={index} status=none"
    return int(it.machine.run_in_guest(f"dd {words} | od -An -tx8").stdout, 16)


def set_msr(it: Bed, cpu: int, index: int, value: int) -> None:
    octal = "".join(f"\\{byte:03o}" for byte in value.to_bytes(8, "little"))
    words = f"of=/dev/cpu/{cpu}/msr bs=8 count=1 oflag=seek_bytes seek={index} conv=notrunc"
    it.machine.run_in_guest(f"printf '{octal}' | dd {words} status=none")


def with_microcode(revision: int) -> str:
    return f"{CPU_MODEL},ucode-rev={revision << 32:#x}"


def pm1_enable(it: Bed) -> int:
    assert it.machine.qemu is not None
    answer = it.machine.qemu.qmp.monitor(f"i /xh {PM1_ENABLE_PORT:#x}")
    found = re.search(r"= 0x([0-9a-f]+)", answer)
    assert found, answer
    return int(found[1], 16)


def registers(it: Bed) -> dict[str, int]:
    named = {"EFER": EFER, "VM_HSAVE_PA": HSAVE_PA, "MCG_CTL": MCG_CTL, "MC3_CTL": MC3_CTL}
    values = {
        f"{name} of CPU {cpu}": msr(it, cpu, index)
        for name, index in named.items()
        for cpu in range(CPUS)
    }
    return values | {"PM1 enable": pm1_enable(it)}


def set_registers(it: Bed) -> None:
    """Other values than a CPU starts with."""
    for cpu in range(CPUS):
        set_msr(it, cpu, EFER, msr(it, cpu, EFER) | SVME)
        set_msr(it, cpu, HSAVE_PA, 0x100000 * (cpu + 1))
        set_msr(it, cpu, MC3_CTL, 0)
        set_msr(it, cpu, MCG_CTL, 0)


def check_registers_are_kept(it: Bed) -> None:
    """Inner check: over a cut."""
    set_registers(it)
    before = registers(it)
    assert before["EFER of CPU 1"] & SVME
    assert before["VM_HSAVE_PA of CPU 1"] == 0x200000
    assert before["PM1 enable"] != 0
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.resume()
    lost = {name: value for name, value in registers(it).items() if value != before[name]}
    if lost:
        was = {name: before[name] for name in lost}
        raise BrokenError("state-lost", f"lost: {', '.join(sorted(lost))}; {lost}, before: {was}")


def check_alarm_fires(it: Bed) -> None:
    """Inner check: an alarm of the clock that was set before a cut."""
    it.machine.run_in_guest(f"echo 0 > {ALARM}; echo +{ALARM_IN_S} > {ALARM}")
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.resume()
    end_s = time.monotonic() + ALARM_LIMIT_S
    while it.machine.run_in_guest(f"cat {ALARM}").stdout.strip():
        if time.monotonic() > end_s:
            raise BrokenError("state-lost", "the clock's alarm is still to come")
        time.sleep(POLL_S)


def check_holder_is_named(it: Bed) -> None:
    """Inner check: with a device that holds state."""
    shown = it.machine.run_in_guest(f"cat {SYSFS}/stop_mode").stdout.strip()
    if not re.fullmatch(r"dpm: because of 0000:00:06\.0", shown):
        raise BrokenError("state-lost", f"what the device holds is not kept: {shown}")


def check_older_microcode_is_a_cold_boot(it: Bed) -> None:
    """Inner check: the CPUs have lost an update with the power. The machine's description is the
    same, so the image is entered; Go finds it, and ends in a reset.
    """
    it.machine.guest.close()
    assert it.machine.cut().stopped
    it.machine.config = replace(it.machine.config, cpu_model=with_microcode(MICROCODE - 1))
    finding = "the image continues on older microcode"
    check_go_is_given_up(it, "microcode", "state-lost", finding)


def updated(
    purpose: str, mutants: bool = False, mutant: str | None = None
) -> AbstractContextManager[Bed]:
    model = with_microcode(MICROCODE)
    return booted_bed(purpose, cpu_model=model, mutants=mutants, mutant=mutant)


def holder(
    purpose: str, mutants: bool = False, mutant: str | None = None
) -> AbstractContextManager[Bed]:
    device = "virtio-serial-pci,disable-legacy=on,iommu_platform=on,addr=6"
    return booted_bed(purpose, devices=(device,), mutants=mutants, mutant=mutant)


@pytest.mark.in_turn
def test_registers_and_the_alarm_are_kept() -> None:
    with machine("platform") as it:
        assert it.machine.run_in_guest(f"cat {SYSFS}/stop_mode").stdout == "fast\n"
        check_registers_are_kept(it)
        check_alarm_fires(it)
        assert it.kept()
        assert kernel_warnings(it.machine.console.text()) == []


def test_virtio_device_that_holds_state_keeps_the_machine_on_the_portable_path() -> None:
    with holder("holder") as it:
        check_holder_is_named(it)


def test_older_microcode_is_a_cold_boot_with_its_reason() -> None:
    with updated("microcode") as it:
        check_older_microcode_is_a_cold_boot(it)


# The kernel of the planted bugs, with none of them on: without it a bug could be found because of
# any fault of that kernel.


@pytest.mark.soak
def test_kernel_of_the_planted_bugs_keeps_registers_and_the_alarm() -> None:
    with machine("platform-control", mutants=True) as it:
        check_registers_are_kept(it)
        check_alarm_fires(it)


@pytest.mark.soak
def test_kernel_of_the_planted_bugs_names_the_device_that_holds_state() -> None:
    with holder("holder-control", mutants=True) as it:
        check_holder_is_named(it)


@pytest.mark.soak
def test_kernel_of_the_planted_bugs_notices_older_microcode() -> None:
    with updated("microcode-control", mutants=True) as it:
        check_older_microcode_is_a_cold_boot(it)


def on_each_cpu(name: str) -> str:
    return ", ".join(f"{name} of CPU {cpu}" for cpu in range(CPUS))


LOST = {
    "forget-events": "lost: PM1 enable;",
    "forget-hsave": f"lost: {on_each_cpu('VM_HSAVE_PA')};",
    "forget-mce": f"lost: {on_each_cpu('MC3_CTL')};",
    "forget-alarm": "the clock's alarm is still to come",
}


@pytest.mark.soak
@pytest.mark.parametrize("name", LOST)
def test_lost_register_is_found(name: str) -> None:
    """Each on a machine of its own: what one has lost, the next would not find set."""
    with machine(name, mutants=True) as it:
        plant(it.machine, name)
        with must_be_found(name, LOST[name]):
            (check_alarm_fires if name == "forget-alarm" else check_registers_are_kept)(it)


@pytest.mark.soak
def test_device_that_holds_state_and_is_restarted_is_found() -> None:
    with (
        holder("holder-bug", mutants=True, mutant="keep-holder") as it,
        must_be_found("keep-holder", "what the device holds is not kept: fast"),
    ):
        check_holder_is_named(it)


@pytest.mark.soak
def test_older_microcode_that_is_not_noticed_is_found() -> None:
    with (
        updated("microcode-bug", mutants=True, mutant="forget-microcode") as it,
        must_be_found("forget-microcode", "the image continues on older microcode"),
    ):
        check_older_microcode_is_a_cold_boot(it)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: under Secure Boot only what is signed is started: the loader, with the kernel as a part of
its image; Stop and Go work there as elsewhere.

Method: OVMF with the test key that Debian enrols (its private half is public), and with a key of
our own instead of all others. The small machine, with the image whole and signed, then with one
thing wrong; and a guest over a cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab import format as fmt
from lab.cli import main
from lab.machine import Machine
from lab.setup.ovmf import OwnKeysOvmf, SecureOvmf
from lab.setup.products import need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config, with_uefi
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, machine_name, warnings
from tests.support.proofs import must_be_found
from tests.uefi.conftest import Make
from tests.uefi.machine import SecureMachine, UefiMachine

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(600)]

REFUSED = "Access Denied"  # by firmware
HEALTHY = "none"


@pytest.fixture
def secure(make: Make) -> SecureMachine:
    machine = make(secure=True)
    assert isinstance(machine, SecureMachine)
    return machine


def test_signed_image_is_started(secure: SecureMachine) -> None:
    assert "GO: cold 16 no-block" in secure.run()


def test_image_that_rem_efi_has_written_is_started(
    secure: SecureMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image, key = tmp_path / "written.efi", secure.signer
    words = [str(image), "--kernel", str(secure.kernel), "--cmdline", "memtype=dram"]
    words += ["--key", str(key.key), "--certificate", str(key.certificate)]
    assert main(["efi", *words]) == 0
    monkeypatch.setattr(secure, "application", lambda: image)
    assert "KERNEL entered" in secure.run()
    at = int(fmt.CONST["REM_WORK_OFFSET"]) + 0x2000
    assert secure.read(at, 13) == b"memtype=dram\0"


def unsigned(machine: SecureMachine) -> None:
    machine.signed = False


def changed_kernel(machine: SecureMachine) -> None:
    machine.flipped = b"KERNEL entered"


def changed_cmdline(machine: SecureMachine) -> None:
    machine.flipped = b"console=ttyS0"


def signed_by_another(machine: SecureMachine) -> None:
    """By Debian's key for tests, which firmware does not know."""
    signer = need(SecureOvmf()).signer
    assert signer is not None
    machine.signer = signer


@pytest.mark.parametrize("wrong", [None, unsigned, changed_kernel, signed_by_another])
def test_keys_of_our_own_are_enough(
    make: Make, wrong: Callable[[SecureMachine], None] | None
) -> None:
    """Firmware has no other key: what they have signed is started without a shim, and nothing else
    is."""
    machine = make(secure=True, keys=OwnKeysOvmf())
    assert isinstance(machine, SecureMachine)
    if wrong is None:
        assert "GO: cold 16 no-block" in machine.run()
        return
    wrong(machine)
    with machine.running() as running:
        running.wait(REFUSED)
        assert "GO:" not in running.text


@pytest.mark.parametrize("wrong", [unsigned, changed_kernel, changed_cmdline])
def test_image_that_is_not_as_signed_is_refused_by_firmware(
    secure: SecureMachine, wrong: Callable[[SecureMachine], None]
) -> None:
    wrong(secure)
    with secure.running() as running:
        running.wait(REFUSED)
        assert "GO:" not in running.text


def check_kernel_beside_is_refused(machine: UefiMachine) -> None:
    """Inner check: a signed loader enters no kernel that firmware has not checked."""
    assert isinstance(machine, SecureMachine)
    machine.whole = False
    with machine.running() as running:
        running.wait("GO: ")
        running.wait("\n")
    if "GO: Secure Boot: " not in running.text:
        raise BrokenError("unsigned-entered", "the kernel beside the loader is entered")


def test_kernel_beside_a_signed_loader_is_refused(make: Make) -> None:
    machine = make(HEALTHY, secure=True)
    check_kernel_beside_is_refused(machine)
    machine.mutant = "trust-files"
    with must_be_found("trust-files"):
        check_kernel_beside_is_refused(machine)


def test_guest_outlives_a_power_failure_under_secure_boot() -> None:
    config = with_uefi(make_config(machine_name("secure"), 1, "fast"), secure=True)
    with Machine.create(replace(config, tpm="crb"), destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        machine.run_in_guest("echo here > /run/only-in-memory")
        for _ in range(2):
            cut_and_resume(machine)
            assert machine.run_in_guest("cat /run/only-in-memory").stdout == "here\n"
        assert warnings(machine) == []

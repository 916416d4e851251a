# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (invariants 1, 2, 3): DRAM that is saved on command keeps everything or reports the loss.

Method: after each loss of power the machine's DRAM is blank; only what Stop's last command
saved can come back, and only as far as the module's own energy lasted. Cuts with charge, without
charge, and without a Stop; then planted bugs: no save, and a flash that is not erased after Go.
Power that returns after a Stop resets the machine while the module still saves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import pytest

from lab.machine import Machine
from lab.machine.caches import DEFAULT_PROFILE, is_lost
from lab.machine.cut_plan import UNANNOUNCED, CutPlan
from lab.record.boot_note import BootNote
from lab.testbed.cycle import cut_and_resume, stop_for_caches
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from lab.verdict import BrokenError, StuckError
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, machine_name, warnings
from tests.support.proofs import must_be_found
from tests.support.trials import parts
from tests.support.wire import power_never_goes

SYSFS = "/sys/kernel/remanence/nvdimm"
KEPT = "/run/kept"  # in memory, not on the disk
STOP_LIMIT_S = 60.0
POLL_S = 0.05

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@contextmanager
def nvdimm_machine(
    purpose: str,
    mutants: bool = False,
    mutant: str | None = None,
    kind: Literal["nvdimm-n", "battery"] = "nvdimm-n",
) -> Iterator[Machine]:
    """*mutant*: a bug to plant in the kernel."""
    made = parts(mutants)
    words = "" if mutant is None else f"remanence.mutant={mutant}"
    config = make_config(machine_name(purpose), stop_mode="fast", kernel=made.kernel)
    config = replace(
        config,
        loader=made.loader,
        nvram_kind=kind,
        nvram_bytes=512 << 20,
        cmdline_extra=f"{config.cmdline_extra} {words}".strip(),
    )
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        machine.run_in_guest(f"echo kept > {KEPT}")
        yield machine


def health(machine: Machine) -> str:
    """Retry: on a busy host the controller, a thread of ours, may answer one read too late."""
    for _ in range(20):
        read = machine.run_in_guest(f"cat {SYSFS}", check=False)
        if read.returncode == 0:
            break
    return read.stdout.strip()


def decision(machine: Machine, mutant: str | None = None) -> BootNote:
    """Return the power; return the loader's decision."""
    machine.guest.close()
    machine.resume(mutant=mutant)
    return machine.wait_boot_note(GO_LIMIT_S)


def dram_is_blank(machine: Machine) -> bool:
    with machine.files.nvram(machine.config).open("rb") as nvram:
        return not any(nvram.read(4 << 20))


def test_saved_image_is_restored_and_erased_once_entered() -> None:
    with nvdimm_machine("nvdimm-keep") as machine:
        assert health(machine) == "armed ready"
        flash = machine.files.nvdimm_parts(machine.config).flash
        for _ in range(2):
            assert not flash.exists()
            record = machine.cut()
            assert record.stopped
            assert dram_is_blank(machine)
            assert flash.exists()
            machine.resume()
            machine.wait_resumed(GO_LIMIT_S)
            assert machine.run_in_guest(f"cat {KEPT}").stdout.strip() == "kept"
            assert health(machine) == "armed ready"
        assert warnings(machine) == []
        # Without a Stop nothing was saved, and the image that was entered was erased.
        machine.cut(UNANNOUNCED)
        assert decision(machine).reason == "COLD_NVDIMM_EMPTY"


def returned_power(machine: Machine) -> BootNote:
    """The decision after PWR_OK has dropped and come back."""
    supply, wire, before = machine.supply, machine.supply.wire, machine.boot_note()
    assert wire is not None
    with power_never_goes(machine):
        supply.set_power_ok(False)
        assert wire.stopped.wait(STOP_LIMIT_S), "no Stop"
        supply.set_power_ok(True)
        end_s = time.monotonic() + GO_LIMIT_S
        while (note := machine.boot_note()) is None or note == before:
            if time.monotonic() > end_s:
                raise StuckError(f"no decision: {consoles(machine)[-200:]}")
            time.sleep(POLL_S)
    return note


def test_reset_during_the_save_loses_nothing() -> None:
    """Twice; and a later loss of power without a Stop saves nothing any more."""
    with nvdimm_machine("nvdimm-reset") as machine:
        for _ in range(2):
            resets = machine.resets
            note = returned_power(machine)
            assert note.resumed, f"the image is lost by a reset: {note.reason}"
            assert machine.resets > resets
            machine.guest.wait_ssh(GO_LIMIT_S)
            assert machine.run_in_guest(f"cat {KEPT}").stdout.strip() == "kept"
            assert health(machine) == "armed ready"
        assert warnings(machine) == []
        machine.cut(UNANNOUNCED)
        assert not machine.files.nvdimm_parts(machine.config).flash.exists()
        assert decision(machine).reason == "COLD_NVDIMM_EMPTY"


def test_second_outage_before_the_capacitor_is_charged_loses_and_reports_it() -> None:
    with nvdimm_machine("nvdimm-charge") as machine:
        assert machine.nvdimm is not None
        machine.nvdimm.set_charge(5 * 10**12)  # a save takes 49 J
        assert health(machine) == "armed charging"
        assert machine.cut().stopped, "the machine itself stopped and committed"
        assert decision(machine).reason == "COLD_NVDIMM_PARTIAL"


@pytest.mark.soak
def test_with_volatile_caches_written_back_lines_are_saved() -> None:
    with nvdimm_machine("nvdimm-caches") as machine:
        stop_for_caches(machine, DEFAULT_PROFILE)
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)
        for text in ("kept", "kept again"):
            assert machine.run_in_guest(f"cat {KEPT}").stdout.strip() == text
            machine.run_in_guest(f"echo kept again > {KEPT}")
            cut_and_resume(machine)
            assert machine.last_cut is not None
            assert machine.last_cut["caches"]["lost_lines"] == 0
            assert machine.last_cut["caches"]["write_backs"] > 0
        assert warnings(machine) == []
        # The record stays in the caches, and the module saves what reached it.
        machine.guest.close()
        record = machine.cut(CutPlan(no_flush="all"))
        assert record.stopped, "the machine believes that it has committed"
        assert is_lost(record.caches)
        assert decision(machine).reason == "COLD_ALREADY_CONSUMED"


def test_memory_on_an_empty_battery_is_blank() -> None:
    with nvdimm_machine("nvdimm-battery", kind="battery") as machine:
        assert machine.battery is not None
        hold_s = machine.battery.retention_ns // 10**9
        for off_s, resumes in ((hold_s // 2, True), (2 * hold_s, False)):
            machine.guest.close()
            assert machine.cut().stopped
            machine.resume(rtc_offset_s=off_s)
            note = machine.wait_boot_note(GO_LIMIT_S)
            assert note.resumed == resumes, note.reason
            if resumes:
                machine.wait_resumed(GO_LIMIT_S)
                assert machine.run_in_guest(f"cat {KEPT}").stdout.strip() == "kept"
        assert note.reason == "COLD_NO_BLOCK"


def check_kept(machine: Machine) -> None:
    """Inner check of the negative proofs: memory is restored."""
    cut_and_resume(machine)
    if machine.run_in_guest(f"cat {KEPT}").stdout.strip() != "kept":
        raise BrokenError("promises-broken", "memory has lost a file")


def check_entered_once(machine: Machine, mutant: str | None = None) -> None:
    """Inner check: after Go and a loss of power without a Stop the image is not entered again."""
    machine.guest.close()
    assert machine.cut().stopped
    assert decision(machine, mutant).resumed
    machine.cut(UNANNOUNCED)
    again = decision(machine, mutant)
    if again.resumed:
        raise BrokenError("entered-twice", f"image {again.sequence} was entered twice")


def check_reset_during_the_save(machine: Machine, mutant: str | None = None) -> None:
    """Inner check: power that returns while the controller saves leads to a Go."""
    machine.guest.close()
    assert machine.cut().stopped
    assert decision(machine, mutant).resumed
    machine.wait_resumed(GO_LIMIT_S)
    note = returned_power(machine)
    if not note.resumed:
        raise BrokenError("does-not-continue", f"the image is lost by a reset: {note.reason}")


def test_checks_pass_without_a_bug() -> None:
    with nvdimm_machine("nvdimm-healthy", mutants=True) as machine:
        check_kept(machine)
        check_reset_during_the_save(machine)
        machine.guest.wait_ssh(GO_LIMIT_S)
        check_entered_once(machine)


def test_save_that_is_not_started_is_found() -> None:
    with (
        nvdimm_machine("nvdimm-save", mutants=True, mutant="skip-save") as machine,
        must_be_found("skip-save"),
    ):
        check_kept(machine)


@pytest.mark.in_turn
def test_flash_that_is_not_erased_is_found() -> None:
    with (
        nvdimm_machine("nvdimm-erase", mutants=True) as machine,
        must_be_found("skip-erase"),
    ):
        check_entered_once(machine, mutant="skip-erase")


@pytest.mark.in_turn
def test_loader_that_does_not_wait_for_the_save_is_found() -> None:
    with (
        nvdimm_machine("nvdimm-hasty", mutants=True) as machine,
        must_be_found("skip-save-wait", "nvdimm-failed"),
    ):
        check_reset_during_the_save(machine, mutant="skip-save-wait")

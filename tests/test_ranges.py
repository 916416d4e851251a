# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claims: an image may lie in any range of NVRAM; a machine is armed only if the loader would enter
its image, and otherwise says why not; a range that another kernel used while the one with the
record was absent is noticed (invariants 3 and 6).

Method: a machine with two ranges. The command line puts the first aside, but for the record block,
so that KASLR has to choose the second. Kernel and loader have planted bugs; one takes the place of
a kernel outside of NVRAM, which memtype= does not let start.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine.config import MIB_BYTES, NVRAM_PHYS, NVRAM_SECOND_PHYS
from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import BOOT_LIMIT_S, GO_LIMIT_S, NVRAM_BYTES, Bed, booted_bed

SECOND_BYTES = 448 * MIB_BYTES
KEPT_BACK_BYTES = 4 * MIB_BYTES  # the block, and the loader's work area
SYSFS = "/sys/kernel/remanence"
OUTSIDE = "refused: the kernel's entry point is outside of NVRAM"
ASIDE = f"memmap={(NVRAM_BYTES - KEPT_BACK_BYTES) >> 20}M!{NVRAM_PHYS + KEPT_BACK_BYTES:#x}"

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    """Stopped, with its media copied; the next arming has an entry point outside of NVRAM."""
    with booted_bed(
        "ranges", mutants=True, nvram_second_bytes=SECOND_BYTES, cmdline_extra=ASIDE
    ) as it:
        assert status(it) == "armed"
        stop_with(it, "entry-outside")
        it.save()
        yield it


def status(it: Bed) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/status").stdout.strip()


def stop_with(it: Bed, mutant: str) -> None:
    """The bug is on when Go arms the machine again."""
    plant(it.machine, mutant)
    it.machine.guest.close()
    assert it.machine.cut().stopped, "no Stop within the hold-up"


def test_kernel_in_the_second_range_resumes(it: Bed) -> None:
    it.restore()
    it.resume()
    assert it.kept()
    shown = it.machine.run_in_guest("grep 'Kernel code' /proc/iomem").stdout
    assert int(shown.split("-")[0], 16) >= NVRAM_SECOND_PHYS, shown
    assert it.record().newest is not None
    assert kernel_warnings(it.machine.console.text()) == []


def test_machine_is_armed_only_if_its_image_could_be_entered(it: Bed) -> None:
    """After the test above: what Go has armed would be refused by the loader."""
    assert status(it) == OUTSIDE
    it.machine.run_in_guest(f"! echo now > {SYSFS}/stop")
    assert status(it) == OUTSIDE


@pytest.mark.in_turn
def test_machine_armed_without_that_check_is_found(it: Bed) -> None:
    it.off()
    it.power_on()
    it.machine.wait_up(BOOT_LIMIT_S)
    stop_with(it, "arm-outside")
    it.resume()
    assert status(it) == "armed"
    it.machine.guest.close()
    assert it.machine.cut().stopped
    with must_be_found("arm-outside"):
        it.resume()


def check_range_used_meanwhile_is_another(it: Bed, mutant: str | None = None) -> None:
    """Inner check: a kernel boots in the second range while the first one is absent."""
    it.restore()
    it.power_on(first_nvram=False, mutant=mutant)
    it.machine.console.expect("GO: cold 16 no-block", GO_LIMIT_S)
    it.machine.console.expect("Linux version", BOOT_LIMIT_S)
    it.off()
    note = it.boot_decision()
    if note.resumed:
        raise BrokenError("differs", f"image {note.sequence} was entered, a part of it overwritten")
    assert note.reason == "COLD_MEMORY_DIFFERS"
    assert note.expected is not None and note.found is not None
    assert note.expected.value[:3] == note.found.value[:3], "only the stamp differs"


def test_range_used_while_the_record_was_absent_is_another(it: Bed) -> None:
    check_range_used_meanwhile_is_another(it)


def test_range_without_a_new_stamp_is_found(it: Bed) -> None:
    with must_be_found("keep-stamp"):
        check_range_used_meanwhile_is_another(it, mutant="keep-stamp")

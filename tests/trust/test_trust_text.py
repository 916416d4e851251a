# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the kernel's text and read-only data are those of the Stop when its image is entered; what
the kernel itself patches after it was armed is entered, whenever the power fails.

Method: guests with swtpm. A byte of text is changed between a cut and the boot that follows; or the
kernel patches itself, by static calls that two CPUs change all the time (kernel/mutants has that
loop). The sum that it keeps in DRAM is compared with that which Python makes of the file of NVRAM.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.setup.products import Kernel, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.planted import plant
from tests.support.claims import GO_LIMIT_S, booted, warnings
from tests.support.proofs import must_be_found
from tests.trust.guest import TRUST, boots_cold, check_sum, guest, lives, media, stop, wait_for_more
from tests.trust.images import Nvram

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(1800)]

PATCHED_LIMIT_S = 120.0
PATCHING = "/sys/module/remanence/parameters/patching"  # of the kernel with planted bugs


def first_of_text(nvram: Nvram, sequence: int) -> int:
    return nvram.text_at(sequence)[0][0]


def within_text(nvram: Nvram, sequence: int) -> int:
    at, size = nvram.text_at(sequence)[0]
    return at + size // 3


def last_of_data(nvram: Nvram, sequence: int) -> int:
    at, size = nvram.text_at(sequence)[1]
    return at + size - 1


@pytest.mark.parametrize("place", [first_of_text, within_text, last_of_data])
def test_changed_text_is_not_entered(place: Callable[[Nvram, int], int]) -> None:
    with guest("text-forged") as machine:
        sequence = stop(machine)
        media(machine).flip(place(media(machine), sequence))
        boots_cold(machine, "FORGED")


def test_text_may_be_trusted() -> None:
    """By the policy that says so: then it is not authenticated."""
    options = {"tpm": "crb", "cmdline_extra": "remanence.trust=record"}
    with booted("text-trusted", 1, "fast", **options) as machine:
        assert "text_kib 0 modules trusted" in machine.run_in_guest(TRUST).stdout
        cut_and_resume(machine)
        sequence = stop(machine)
        assert media(machine).text_at(sequence) == []
        machine.resume()
        machine.wait_resumed(GO_LIMIT_S)


def patched(machine: Machine) -> list[int]:
    """How often each CPU has changed text; each call has then gone where it was to go."""
    one, two, wrong, number = machine.run_in_guest(f"cat {PATCHING}").stdout.split()
    assert (wrong, number) == ("wrong", "0")
    return [int(one), int(two)]


def wait_patched(machine: Machine, before: list[int]) -> list[int]:
    return wait_for_more(lambda: patched(machine), before, PATCHED_LIMIT_S)


def switch_patching(machine: Machine, on: bool) -> None:
    machine.run_in_guest(f"echo {int(on)} > {PATCHING}")


@pytest.mark.parametrize("cpus", [1, 4])
def test_sum_is_that_of_the_text(tmp_path: Path, cpus: int) -> None:
    """Also after a Go, of text that was patched before and since; and the kernel says how much."""
    dram, kernel = tmp_path / "dram", need(Kernel("mutants")).bz_image
    with guest("text-sum", cpus, kernel=kernel, dram_file=dram) as machine:
        check_sum(machine, dram)
        now = [0, 0]
        for _ in range(3):
            switch_patching(machine, True)
            now = wait_patched(machine, now)
            cut_and_resume(machine)
            now = wait_patched(machine, now)
            switch_patching(machine, False)
            now = patched(machine)
            check_sum(machine, dram)
        words = machine.run_in_guest(TRUST).stdout.split()
        kib = int(words[words.index("text_kib") + 1])
        sequence = int(machine.run_in_guest("cat /sys/kernel/remanence/sequence").stdout)
        assert kib * 1024 == sum(size for _, size in media(machine).text_at(sequence))
        assert warnings(machine) == []


def test_power_fails_while_text_is_patched() -> None:
    kernel = need(Kernel("mutants")).bz_image
    with guest("text-loop", 2, kernel=kernel) as machine:
        switch_patching(machine, True)
        now = [0, 0]
        for _ in range(10):
            now = wait_patched(machine, now)
            cut_and_resume(machine)
            lives(machine)
        wait_patched(machine, now)
        assert warnings(machine) == []


def patch_an_odd_number_of_times(machine: Machine) -> None:
    """Else text would be as before: there are two functions, and each loop begins with the same."""
    while True:
        before = patched(machine)
        switch_patching(machine, True)
        wait_patched(machine, before)
        switch_patching(machine, False)
        if (patched(machine)[0] - before[0]) % 2:
            return


def test_change_that_is_not_followed_is_found() -> None:
    kernel = need(Kernel("mutants")).bz_image
    with guest("text-lost", 2, kernel=kernel) as machine:
        cut_and_resume(machine)
        plant(machine, "text-unfollowed")
        patch_an_odd_number_of_times(machine)
        stop(machine)
        machine.resume()
        with must_be_found("text-unfollowed"):
            machine.wait_resumed(GO_LIMIT_S)

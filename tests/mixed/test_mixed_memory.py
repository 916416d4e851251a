# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim (The Age of Core Memory, section 4, recommendation 4): DRAM caches main memory that is
NVRAM, and no power failure loses what only DRAM had.

Method: programs that know what each of their pages has to hold, from the number of the round alone
(lab/testbed/working_set.c), work on more memory than DRAM has while the power is cut. DRAM is
volatile: QEMU's process is killed, and the next one has zeros there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.testbed.machines import make_config
from lab.testbed.mixed_checks import (
    CACHE_BYTES,
    CHECKS,
    FITS,
    PAGES,
    TOO_MANY,
    Check,
    bound_is_kept,
    cut_and_resume,
    goes_on,
    rule_holds,
    stores_survive,
    working,
)
from lab.testbed.mixed_guest import (
    BIN,
    BOOT_LIMIT_S,
    CACHE_UNIT_BYTES,
    PAGE_BYTES,
    SYSFS,
    WorkingSet,
    counts,
    install,
    mixed_guest,
    state,
    wait_count,
)
from lab.testbed.pm_guest import sh
from tests.support.claims import machine_name, warnings

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

# A busy host makes a Stop of an emulated machine long: its bound must not be missed for that.
PREEMPT_OFF_US = 2_000_000
# Room for some hundred pages at the time that a copy takes under emulation, on hosts of any speed.
LEFT_US = (8_000, 2_000, 500)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with mixed_guest(machine_name("mixed"), CACHE_BYTES) as made:
        yield made


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_rule_holds(machine: Machine, check: Check) -> None:
    rule_holds(machine, check)


@pytest.mark.in_turn
def test_several_programs_go_on_over_several_cuts(machine: Machine) -> None:
    first = WorkingSet.start(machine, "first", PAGES, FITS)
    second = WorkingSet.start(machine, "second", 2 * TOO_MANY, TOO_MANY)
    third = WorkingSet.start(machine, "third", PAGES, FITS // 4, pause_us=20_000)
    try:
        for _ in range(3):
            for one in (first, second, third):
                goes_on(one, 8)
            cut = cut_and_resume(machine)
            assert cut.copied and cut.filled
        for one in (first, second, third):
            goes_on(one, 8)
    finally:
        for one in (first, second, third):
            one.stop()
    assert not warnings(machine)


@pytest.mark.parametrize("words", ["on please", "-", "off"])
def test_state_that_is_not_known_is_refused(machine: Machine, words: str) -> None:
    done = sh(machine, f"echo '{words}' >{SYSFS}/state", check=False)
    assert not done.ok and "Invalid argument" in done.stderr
    assert state(machine) == "on"


@pytest.mark.in_turn
def test_portable_path_copies_home_too() -> None:
    with mixed_guest(machine_name("mixed-dpm"), CACHE_BYTES, stop_mode="dpm") as machine:
        stores_survive(machine)
        assert not warnings(machine)


LOCK_AT = 200  # a round


@pytest.mark.in_turn
def test_memory_that_is_locked_while_dram_has_it_goes_on(machine: Machine) -> None:
    one = WorkingSet.start(machine, "locked", PAGES, FITS, 20_000, lock_at=LOCK_AT)
    try:
        wait_count(machine, "used", FITS // 2)
        assert one.round() < LOCK_AT, "it was locked before it was in DRAM"
        one.wait_rounds(LOCK_AT - one.round() + 1)
        pid = f"$(pgrep -o -f '^{BIN}/{one.program} ')"
        locked = sh(machine, f"grep VmLck /proc/{pid}/status").stdout
        assert int(locked.split()[1]) * 1024 >= PAGES * PAGE_BYTES
        for _ in range(2):
            cut_and_resume(machine)
            goes_on(one, 8)
    finally:
        one.stop()
    assert not warnings(machine)


FEW = 30


@pytest.mark.in_turn
def test_no_more_dram_is_used_than_may_be() -> None:
    words = f"remanence.dram_max_kib={FEW * PAGE_BYTES // 1024}"
    with mixed_guest(machine_name("mixed-few"), CACHE_BYTES, words) as machine:
        one = WorkingSet.start(machine, "few", PAGES, FITS)
        try:
            wait_count(machine, "used", FEW // 2)
            cut = cut_and_resume(machine)
            assert 0 < cut.filled <= FEW, cut
            goes_on(one, 8)
        finally:
            one.stop()
        seen = counts(machine)
        assert seen["frames"] == FEW >= seen["used"] > 0, seen
        assert not warnings(machine)


@pytest.mark.in_turn
def test_less_than_a_page_of_dram_is_one_line_and_none_is_used() -> None:
    with mixed_guest(machine_name("mixed-none"), CACHE_BYTES, "remanence.dram_max_kib=3") as made:
        assert state(made) == "off: remanence.dram_levels or dram_max_kib is wrong"
        log = sh(made, "dmesg").stdout.splitlines()
        assert sum("dram_max_kib=3: " in one for one in log) == 1


HUGE_PAGES = 512
SPARSE = """cat >/tmp/sparse.c <<'EOF'
#include <stdlib.h>
int main(void)
{
	volatile char *buffer = malloc(4 << 20);
	for (int page = 0; page < 1024; page += 64)
		buffer[page * 4096L] = 1;
}
EOF
gcc -O2 -o /tmp/sparse /tmp/sparse.c"""
RUN_SPARSE = "for i in $(seq 20); do /tmp/sparse; sleep 0.1; done"


@pytest.mark.in_turn
def test_huge_page_that_has_no_room_keeps_no_frames_for_itself() -> None:
    """Programs that store to some of its pages need no more of DRAM than these."""
    with mixed_guest(machine_name("mixed-huge"), 2 * CACHE_UNIT_BYTES) as machine:
        sh(machine, "echo always >/sys/kernel/mm/transparent_hugepage/enabled")
        sh(machine, SPARSE)
        kept = []
        for _ in range(4):
            sh(machine, RUN_SPARSE)
            kept.append(counts(machine)["reserve"])
        assert max(kept) < HUGE_PAGES
        assert not warnings(machine)


@pytest.mark.in_turn
def test_short_hold_up_bounds_what_may_differ() -> None:
    """Programs that store to more pages get the others in NVRAM."""
    assert any(_bound_is_met(left_us) for left_us in LEFT_US), (
        "the test needs a bound that its program would pass"
    )


def _bound_is_met(left_us: int) -> bool:
    """Whether the program passes the bound of such a hold-up; if so, the bound is kept."""
    words = (
        f"remanence.preempt_off_us={PREEMPT_OFF_US} remanence.hold_up_us={PREEMPT_OFF_US + left_us}"
    )
    with mixed_guest(machine_name(f"mixed-bound-{left_us}"), CACHE_BYTES, words) as machine:
        most = counts(machine)["dirty_max"]
        assert most > 0, "the hold-up leaves no time for a page"
        if most >= FITS:
            return False
        bound_is_kept(machine)
        assert counts(machine)["over"], "no store was refused: the bound was not met"
        assert sh(machine, "cat /sys/kernel/remanence/status").stdout.strip() == "armed"
        return True


@pytest.mark.in_turn
def test_less_dram_at_the_next_boot_is_another_machine() -> None:
    with mixed_guest(machine_name("mixed-less"), CACHE_BYTES) as machine:
        WorkingSet.start(machine, "less", PAGES, FITS)
        wait_count(machine, "used", FITS // 2)
        machine.guest.close()
        machine.cut()
        less_bytes = machine.config.dram_size_bytes - CACHE_BYTES
        machine.config = replace(machine.config, dram_bytes=less_bytes)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        note = sh(machine, "cat /sys/kernel/remanence/last_boot").stdout
        assert "memory" in note
        assert state(machine).startswith("off: ")


@pytest.mark.in_turn
def test_without_the_word_dram_is_left_alone() -> None:
    config = make_config(machine_name("mixed-off"))
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        assert state(machine) == "off: memtype=mixed was not given"
        done = sh(machine, f"echo on >{SYSFS}/state", check=False)
        assert not done.ok and "No such device" in done.stderr
        install(machine)
        one = WorkingSet.start(machine, "off", 2000, 500)
        one.wait_rounds(5)
        assert counts(machine)["frames"] == counts(machine)["promoted"] == 0


@pytest.mark.in_turn
def test_memory_that_runs_short_takes_cold_pages_from_dram(machine: Machine) -> None:
    """Programs that need more than is free end nothing: homes are not taken for free memory."""
    with working(machine, "short"):
        before = counts(machine)["promoted"]
        sh(machine, "python3 -c 'b = bytearray(400 << 20); print(len(b))'")
        wait_count(machine, "promoted", before + 1)
    assert not warnings(machine)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the sum of the kernel's text follows all that patches text: branches (jump labels), the
function tracer and break points (kprobes), whenever the power fails.

Method: guests with swtpm and the kernel of kernel/config/tracing.config, which has all of these;
test_trust_text.py has static calls. The sum is compared as there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machine import Machine
from lab.setup.kernel import TRACING
from lab.setup.products import Kernel, need
from lab.testbed.cycle import cut_and_resume
from tests.support.claims import warnings
from tests.trust.guest import check_sum, guest, lives, media, wait_for_more
from tests.trust.images import key_page_in

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

TRACE = "/sys/kernel/tracing"
TRACING_ON = (
    f"mkdir -p {TRACE}; mount -t tracefs none {TRACE} 2>/dev/null;"
    f" echo 'vfs_*' > {TRACE}/set_ftrace_filter"
)
# Each changes text, and changes it back.
CHANGES = {
    "branches": ("sysctl -qw kernel.sched_schedstats=1", "sysctl -qw kernel.sched_schedstats=0"),
    "tracer": (
        f"echo function > {TRACE}/current_tracer",
        f"echo nop > {TRACE}/current_tracer",
    ),
    "break point": (
        f"echo 'p:rem_test vfs_read' > {TRACE}/kprobe_events &&"
        f" echo 1 > {TRACE}/events/kprobes/rem_test/enable",
        f"echo 0 > {TRACE}/events/kprobes/rem_test/enable && echo > {TRACE}/kprobe_events",
    ),
}
LOOPS = ("branches", "tracer")
LOOPED_LIMIT_S = 240.0
COUNT = "/run/count-"


def words_of_sum(machine: Machine, dram: Path) -> list[int]:
    return list(key_page_in(dram, media(machine).trust()).text_sum)


def test_sum_follows_all_that_patches_text(tmp_path: Path) -> None:
    dram, kernel = tmp_path / "dram", need(Kernel(TRACING)).bz_image
    with guest("tracing", 2, kernel=kernel, dram_file=dram) as machine:
        machine.run_in_guest(TRACING_ON)
        check_sum(machine, dram)
        for on, off in CHANGES.values():
            before = words_of_sum(machine, dram)
            machine.run_in_guest(on)
            check_sum(machine, dram)
            assert words_of_sum(machine, dram) != before
            cut_and_resume(machine)
            check_sum(machine, dram)
            machine.run_in_guest(off)
            check_sum(machine, dram)
        assert warnings(machine) == []


def begin_patching(machine: Machine) -> None:
    """Each loop on a CPU of its own, so that one may be parked while the other patches."""
    machine.run_in_guest(TRACING_ON)
    for cpu, name in enumerate(LOOPS):
        on, off = CHANGES[name]
        loop = f"n=0; while {on} && {off}; do n=$((n + 1)); echo $n > {COUNT}{name}; done"
        machine.run_in_guest(f"echo 0 > {COUNT}{name}")
        machine.run_in_guest(
            f"setsid taskset {1 << cpu:x} sh -c '{loop}' > /dev/null 2>&1 < /dev/null &"
        )


def wait_looped(machine: Machine, before: list[int]) -> list[int]:
    def turns() -> list[int]:
        found = [machine.run_in_guest(f"cat {COUNT}{name}").stdout for name in LOOPS]
        return [int(text or 0) for text in found]

    return wait_for_more(turns, before, LOOPED_LIMIT_S)


def test_power_fails_while_text_is_traced() -> None:
    kernel = need(Kernel(TRACING)).bz_image
    with guest("tracing-loop", 2, kernel=kernel) as machine:
        begin_patching(machine)
        now = [0] * len(LOOPS)
        for _ in range(10):
            now = wait_looped(machine, now)
            cut_and_resume(machine)
            lives(machine)
        wait_looped(machine, now)
        assert warnings(machine) == []

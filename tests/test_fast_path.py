# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No code of ours is on the fast paths of normal running.

Goal: a system call and a page fault take no more instructions than without our patches, while a
Stop is armed. Method: `rem bench fast-path`, whose counts repeat exactly. Negative proofs: a loop
with one more instruction, and Debian's kernel, whose configuration has more on these paths. It
needs two more kernels, so it is not in CI.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from lab.bench import fast_path
from lab.bench.fast_path import LOOPS, OURS, WITHOUT, Cost

pytestmark = pytest.mark.soak

REPEATS = 30


def measured(*names: str) -> dict[str, dict[str, Cost]]:
    plan = fast_path.make_plan(names, REPEATS, machine=f"t-fast-path-{os.getpid()}")
    return {kernel.name: fast_path.measure(plan, kernel) for kernel in plan.kernels}


def test_our_patches_add_no_instruction_to_a_fast_path() -> None:
    costs = measured(OURS, WITHOUT)
    for loop in ("syscall", "file_fault"):
        assert costs[OURS][loop].insns == costs[WITHOUT][loop].insns
    # Not equal: the other kernel's memory is in another zone, below 4 GiB.
    assert costs[OURS]["fault"].insns <= costs[WITHOUT]["fault"].insns
    assert not fast_path.longer(costs)


def test_one_more_instruction_is_detected() -> None:
    plan = fast_path.make_plan([OURS], REPEATS, machine=f"t-fast-path-{os.getpid()}")
    loops = {"call": LOOPS["syscall"], "call_and_one": ("x", "the same and one instruction")}
    costs = fast_path.measure(plan, plan.kernels[0], loops)
    assert costs["call_and_one"].insns == costs["call"].insns + 1


def test_kernel_with_more_on_its_fast_paths_is_called_longer() -> None:
    """Debian's in place of ours, ours in place of the one without patches."""
    plan = fast_path.make_plan(["debian", OURS], REPEATS, machine=f"t-fast-path-{os.getpid()}")
    costs = {kernel.name: fast_path.measure(plan, kernel) for kernel in plan.kernels}
    swapped = {OURS: costs["debian"], WITHOUT: costs[OURS]}
    assert fast_path.longer(swapped) == list(LOOPS)

    debian = replace(plan.kernels[0], name=OURS)
    with pytest.raises(fast_path.RemError, match="armed"):
        fast_path.measure(plan, debian)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How counts become the cost of one iteration, and how kernels are compared.

Goal: constants and interrupts cancel out, one more instruction does not; a kernel with another
configuration does not count as ours without patches.
"""

from __future__ import annotations

import pytest

from lab.bench.fast_path import LOOPS, OURS, WITHOUT, Cost, Kernel, Pair, Plan, cost_of, run_bench
from lab.commands.bench import FAST_PATH_KERNELS, checked_kernels
from lab.errors import RemError, UsageError
from lab.paths import repo_dir
from lab.setup.kernel_plain import config_difference, own_symbols, without_symbols

OVERHEAD_INSNS = 77
TICK_INSNS = 12_345


def pair(per_iteration: int, n: int = 8, short_tick: int = 0, long_tick: int = 0) -> Pair:
    return Pair(
        OVERHEAD_INSNS + n * per_iteration + short_tick,
        OVERHEAD_INSNS + 2 * n * per_iteration + long_tick,
    )


def test_cost_around_the_loop_cancels_out() -> None:
    assert cost_of([pair(216)] * 5, 8) == Cost(216, 0)


def test_one_instruction_in_an_iteration_shows() -> None:
    assert cost_of([pair(217)] * 5, 8).insns - cost_of([pair(216)] * 5, 8).insns == 1


def test_runs_with_an_interrupt_in_them_do_not_count() -> None:
    clean = [pair(216)] * 9
    ticks = [pair(216, short_tick=TICK_INSNS)] * 3 + [pair(216, long_tick=TICK_INSNS)] * 3
    assert cost_of([*ticks, *clean], 8) == Cost(216, 0)


def test_spread_of_runs_is_reported() -> None:
    few = [pair(216)] * 3 + [pair(218)] * 13
    assert cost_of(few, 8) == Cost(216, 2 + 4)  # of n and of 2n iterations
    quarter = [pair(216)] * 5 + [pair(218)] * 11
    assert cost_of(quarter, 8) == Cost(216, 0)


@pytest.mark.parametrize(("pairs", "iterations"), [([], 8), ([pair(1)], 0)])
def test_no_runs_have_no_cost(pairs: list[Pair], iterations: int) -> None:
    with pytest.raises(RemError):
        cost_of(pairs, iterations)


def bench(ours: Cost, without: Cost) -> tuple[bool, dict[str, object]]:
    path = repo_dir()
    kernels = (Kernel(OURS, path), Kernel(WITHOUT, path))
    plan = Plan(kernels, loader=path, init=path, initrd=path, plugin=path)
    costs = {OURS: ours, WITHOUT: without}
    result = run_bench(plan, lambda _, kernel: dict.fromkeys(LOOPS, costs[kernel.name]))
    kinds = {figure.kind for figure in result.figures.values()}
    assert kinds == {"counted"}
    return result.ok, {name: figure.value for name, figure in result.figures.items()}


def test_verdict_is_of_patched_over_unpatched() -> None:
    ok, figures = bench(Cost(216, 0), Cost(216, 0))
    assert ok
    assert figures["syscall_insns_patched"] == 216
    assert figures["fault_insns_over_unpatched"] == 0


@pytest.mark.parametrize("more", [0.125, 1, 100])
def test_longer_by_less_than_an_instruction_is_not_ok(more: float) -> None:
    ok, figures = bench(Cost(216 + more, 0), Cost(216, 0))
    assert not ok
    assert figures["syscall_insns_over_unpatched"] == more


def test_difference_within_the_spread_is_no_verdict() -> None:
    assert bench(Cost(217, 0), Cost(216, 1))[0]
    assert not bench(Cost(217.5, 0), Cost(216, 1))[0]


def test_own_symbols_are_read_from_kconfig_and_patches() -> None:
    assert {"REMANENCE", "REMANENCE_PM", "HIBERNATE_CALLBACKS"} <= own_symbols(repo_dir())


def test_configuration_without_us_is_the_same_but_for_us() -> None:
    ours = "CONFIG_SMP=y\nCONFIG_REMANENCE=y\n# CONFIG_REMANENCE_PM is not set\n\n# words\n"
    symbols = {"REMANENCE", "REMANENCE_PM"}
    assert without_symbols(ours, symbols) == "CONFIG_SMP=y\n"
    assert config_difference(ours, "CONFIG_SMP=y\n", symbols) == []
    assert config_difference(ours, "# CONFIG_SMP is not set\n", symbols) == [
        "# CONFIG_SMP is not set",
        "CONFIG_SMP=y",
    ]


def test_kernels_are_chosen_by_name() -> None:
    assert checked_kernels("all") == FAST_PATH_KERNELS
    assert checked_kernels("patched,debian,patched") == ("patched", "debian")
    with pytest.raises(UsageError, match="--kernels vanilla"):
        checked_kernels("vanilla")

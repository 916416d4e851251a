# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Figure 5: see README.md."""

from __future__ import annotations

from typing import Any

from lab.bench.heap import instructions_per_update
from lab.bench.heap import measure as measure_heap
from lab.experiment.run import Context, Report
from lab.setup.heap import HeapWithPeer
from lab.setup.products import need

SHARES = range(0, 101, 10)
NAMES = {
    "foc_stm": "FoC+STM",
    "foc_ul": "FoC+UL",
    "foc_rl": "FoC+RL",
    "pmdk": "libpmemobj",
    "fof_stm": "FoF+STM",
    "fof_ul": "FoF+UL",
    "fof": "FoF",
    "glibc": "plain memory of glibc",
}
# What FoF may take over plain memory that does not outlive the process.
FOF_FACTOR_MAX = 1.05
ALLOCATORS = ("glibc", "mimalloc")
OPERATIONS, OPERATIONS_CI = 1_000_000, 50_000
# A table that stays in the cache: what flushing costs where no miss hides it.
SMALL_ENTRIES, SMALL_PART, SMALL = 2000, 5, "small_"
# A fence that takes longer, as in slower memory; in heap/bench/src/waits.rs.
WAITS_NS, WAITS_PART = (300, 1000, 3000), 5
FLUSHED = ("foc_stm", "foc_ul")


def measure(it: Context) -> dict[str, Any]:
    operations = OPERATIONS_CI if it.is_ci else OPERATIONS
    bench = need(HeapWithPeer())
    raw = {}
    for prefix, words in (
        ("", ["--operations", str(operations)]),
        (
            SMALL,
            ["--operations", str(operations // SMALL_PART), "--entries", str(SMALL_ENTRIES)],
        ),
    ):
        found = measure_heap(bench, "fig5", [*words, "--skip-check"])
        raw |= {prefix + one.name: [one.value, one.spread_percent] for one in found}
    words = ["--operations", str(operations // WAITS_PART), "--skip-check"]
    found = measure_heap(bench, "waits", words)
    raw |= {one.name: [one.value, one.spread_percent] for one in found}
    # Counted: what the code takes, whatever else the host does.
    for memory in ("fof", *ALLOCATORS):
        raw[f"{memory}_instructions"] = [instructions_per_update(bench, memory), 0.0]
    return raw


def _judge_in_between(raw: dict[str, Any], report: Report) -> None:
    """Transactions in the cache cost more than none, and less than those that are flushed."""
    for share in (50, 100):
        for policy in ("stm", "ul"):
            value, _ = raw[f"u{share}_fof_{policy}_vs_fof"]
            what = f"{share} % updates: FoF+{policy.upper()} takes longer than FoF"
            report.expect(f"{what} ({value:.2f} times)", value > 1)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for name, (value, _) in raw.items():
        if name.endswith("_vs_fof") and "_wait" not in name:
            report.result.add(name, value, "x", "native")
    for share in SHARES:
        for policy in FLUSHED:
            for wait_ns in WAITS_NS:
                name = f"u{share}_{policy}_vs_fof, a fence takes {wait_ns} ns more"
                value, _ = raw[f"u{share}_{policy}_wait{wait_ns}_vs_fof"]
                report.result.add(name, value, "x", "native")
    _judge_in_between(raw, report)
    for allocator in ALLOCATORS:
        fof, plain = (raw[f"{memory}_instructions"][0] for memory in ("fof", allocator))
        report.result.add(f"instructions_fof_vs_{allocator}", fof / plain, "x", "counted")
        report.expect(
            f"an update takes no more instructions under FoF than in memory of {allocator} "
            f"({fof:.1f}, {plain:.1f})",
            fof <= FOF_FACTOR_MAX * plain,
        )
    # Order only: how far they are apart is the machine's matter. Ratios are of batches side by
    # side, so that what else the machine does meets both.
    for share in (50, 100):
        for prefix, table in (("", "a table of 100,000"), (SMALL, f"one of {SMALL_ENTRIES:,}")):
            for policy, label in (("ul", "UL"), ("stm", "STM")):
                name = f"{prefix}u{share}_foc_vs_fof_{policy}"
                value, spread = raw[name]
                report.result.add(name, value, "x", "native")
                report.result.add(f"{name}_spread", spread, "%", "native")
                report.expect(
                    f"{table}, {share} % updates: FoC+{label} takes longer than FoF+{label} "
                    f"({value:.3f} times, spread {spread:.0f} %)",
                    value > 1,
                )
        peer, ours = (raw[f"u{share}_{name}_ns"][0] for name in ("pmdk", "foc_ul"))
        report.expect(
            f"{share} % updates: libpmemobj takes longer than FoC+UL ({peer:.0f}, {ours:.0f} ns)",
            peer > ours,
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    times, ratios = figure.subplots(1, 2)
    for name, label in NAMES.items():
        ours = [raw[f"u{share}_{name}_ns"][0] for share in SHARES]
        times.plot(SHARES, ours, label=label, linewidth=1)
    for name in ("foc_stm", "foc_ul", "pmdk"):
        ratio = [raw[f"u{share}_{name}_vs_fof"][0] for share in SHARES]
        ratios.plot(SHARES, ratio, label=NAMES[name], linewidth=1)
    low, high = paper["foc_stm_vs_fof"]
    ratios.axhspan(low, high, alpha=0.15, label="paper, FoC+STM")
    ends = [paper["foc_ul_read_only_vs_fof"], paper["foc_ul_write_heavy_vs_fof"]]
    ratios.plot([0, 100], ends, "k_", label="paper, FoC+UL")
    times.set(xlabel="updates, %", ylabel="ns per operation", yscale="log")
    ratios.set(xlabel="updates, %", ylabel="times FoF")
    for axes in (times, ratios):
        axes.legend(frameon=False, fontsize=7)

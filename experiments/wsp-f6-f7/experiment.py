# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Figures 6 and 7: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report

NOISE_PERMILLE = 15
LOADS = ("busy", "idle")
UNTIL_NS = 480_000_000
TRACE_UNTIL_NS = 100_000_000


def measure(it: Context) -> dict[str, Any]:
    windows: dict[str, dict[str, list[int]]] = {}
    for name in it.model.names("supply"):
        windows[name] = {}
        for load in LOADS:
            found = []
            for seed in range(it.seed, it.seed + (1 if it.is_ci else 3)):
                answer = it.model.ask("rails", name=name, load=load, seed=seed * 10,
                                      noise_permille=NOISE_PERMILLE, until_ns=UNTIL_NS)  # fmt: skip
                found.append(min(rail["window_ns"] or UNTIL_NS for rail in answer["rails"]))
            windows[name][load] = found
    trace = it.model.ask("rails", name="wsp-intel-1050w", load="busy", seed=it.seed,
                         noise_permille=NOISE_PERMILLE, until_ns=TRACE_UNTIL_NS)  # fmt: skip
    return {"windows_ns": windows, "trace": trace}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for name, (busy_ms, idle_ms) in paper["window_ms"].items():
        for load, paper_ms in zip(LOADS, (busy_ms, idle_ms), strict=True):
            # As the paper does: the worst of the runs.
            worst_ns = min(raw["windows_ns"][name][load])
            report.add(f"{name.replace('-', '_')}_{load}_ns", worst_ns, "ns")
            report.expect(
                f"{name}, {load}: {worst_ns / 1e6:.2f} ms, paper {paper_ms}",
                abs(worst_ns / 1e6 - paper_ms) <= 0.5,
            )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    rails, bars = figure.subplots(1, 2, width_ratios=(2, 3))
    step_ms = raw["trace"]["sample_ns"] / 1e6
    for rail in raw["trace"]["rails"]:
        samples = [mv / 1000 for mv in rail["samples_mv"]]
        rails.plot([i * step_ms for i in range(len(samples))], samples, linewidth=0.6,
                   label=f"{rail['nominal_mv'] / 1000:g} V")  # fmt: skip
    rails.axvline(paper["trace_window_ms"], color="black", linewidth=0.8, linestyle=":")
    rails.set(xlabel="ms after PWR_OK", ylabel="V")
    rails.legend(frameon=False, fontsize=7)
    names = list(paper["window_ms"])
    for lane, name in enumerate(names):
        for side, load in enumerate(LOADS):
            at = lane + (side - 0.5) * 0.4
            ours_ms = min(raw["windows_ns"][name][load]) / 1e6
            bars.bar(at, ours_ms, width=0.36, color=("#0072B2", "#56B4E9")[side],
                     label=f"ours, {load}" if lane == 0 else None)  # fmt: skip
            bars.plot([at], [paper["window_ms"][name][side]], "k_", markersize=12,
                      label="paper" if lane == side == 0 else None)  # fmt: skip
    bars.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=7)
    bars.set(ylabel="window, ms", yscale="log")
    bars.legend(frameon=False, fontsize=7)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 17: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory

KERNELS = ("copy", "scale", "add", "triad")
# Clock, misses in flight of a core, and what limits the memory's writes.
SWEEP: dict[str, dict[str, Any]] = {
    "1600 MHz": {},
    "400 MHz": {"cores": {"clock_mhz": 400}},
    "400 MHz, in order": {"cores": {"clock_mhz": 400, "misses_in_flight": 1}},
    "100 MHz": {"cores": {"clock_mhz": 100}},
    "400 MHz, 2 ranks a DIMM": {"cores": {"clock_mhz": 400}, "change": {"devices_per_dimm": 24}},
    "400 MHz, 4 ranks a DIMM": {"cores": {"clock_mhz": 400}, "change": {"devices_per_dimm": 48}},
    "400 MHz, 3 channels of DRAM": {"cores": {"clock_mhz": 400}, "dram": {"channels": 3}},
    "400 MHz, 4 channels of DRAM": {"cores": {"clock_mhz": 400}, "dram": {"channels": 4}},
    "400 MHz, program in 100 ns": {
        "cores": {"clock_mhz": 400},
        "change": {"program_ns": 50, "cooling_ns": 50},
    },
}


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    accesses = 100_000 if it.is_ci else 2_000_000

    def time_ns(on: dict[str, Any], kernel: str, cores: dict[str, float]) -> float:
        answer = engine.ask(
            "replay", memory=on, workload=f"stream-{kernel}", accesses=accesses, cores=cores
        )
        return float(answer["time_ns"])

    found: dict[str, Any] = {}
    for name, case in SWEEP.items():
        cores = case.get("cores", {})
        lightpc = memory("lightpc", change=case.get("change", {}))
        legacy = memory("legacypc", change=case.get("dram", {}))
        found[name] = {
            kernel: time_ns(legacy, kernel, cores) / time_ns(lightpc, kernel, cores)
            for kernel in KERNELS
        }
    return found


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    report.add("paper_mean_share", paper["mean_share"], "")
    for name, shares in raw.items():
        mean = sum(shares.values()) / len(shares)
        report.add(f"mean share, {name}", round(mean, 3), "")
    for kernel, share in raw["400 MHz"].items():
        report.add(f"{kernel}_share", round(share, 3), "")
    shares = raw["400 MHz"]
    report.expect("LightPC's bandwidth is below LegacyPC's", max(shares.values()) < 1)
    report.expect(
        "Add and Triad, which read more, are closer to LegacyPC than Copy and Scale",
        min(shares["add"], shares["triad"]) > max(shares["copy"], shares["scale"]),
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for index, (name, shares) in enumerate(raw.items()):
        at = [x + index * 0.09 for x in range(len(KERNELS))]
        axes.bar(at, [shares[k] for k in KERNELS], 0.09, label=name)
    axes.axhline(paper["mean_share"], color="black", linestyle=":", label="paper's mean")
    axes.set_xticks([x + 0.36 for x in range(len(KERNELS))], KERNELS)
    axes.set(ylabel="bandwidth, LegacyPC = 1")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 17: see README.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from lab.experiment.programs import PROTOTYPE, kept_at_once, programs_root
from lab.experiment.run import Context, Report
from lab.machine.memories import ASIC_CORES, MEMORY_PROFILE
from lab.setup.products import Kernel, Plugin, need_all
from lab.setup.root_extras import WORKS_FOLDER
from lab.testbed.machines import make_config
from lab.testbed.memory_machine import booted_on

KERNELS = ("copy", "scale", "add", "triad")
CORES = 8
ELEMENTS = 1_000_000
TIMES = 6  # the fastest counts: an interrupt takes as long as a thousand elements
RUN_LIMIT_S = 1200.0
IN_ORDER = f"{MEMORY_PROFILE}:mhz=400"
# Of each case the memory of LightPC and that of LegacyPC, and the cores of both.
OURS = "400 MHz"
CASES = {
    OURS: ("ocpmem", "dram", PROTOTYPE),
    f"{OURS}, 2 ranks a DIMM": ("ocpmem:devices_per_dimm=24", "dram", PROTOTYPE),
    f"{OURS}, 4 ranks a DIMM": ("ocpmem:devices_per_dimm=48", "dram", PROTOTYPE),
    f"{OURS}, 4 channels of DRAM": ("ocpmem", "dram:channels=4", PROTOTYPE),
    f"{OURS}, program in 100 ns": ("ocpmem:program_ns=50:cooling_ns=50", "dram", PROTOTYPE),
    f"{OURS}, in order": ("ocpmem", "dram", IN_ORDER),
    "1600 MHz": ("ocpmem", "dram", ASIC_CORES),
}

# What a deviation refers to.
SHORT = (OURS, f"{OURS}, in order", f"{OURS}, program in 100 ns")


def measure(it: Context) -> dict[str, Any]:
    """Times of the kernels by case and platform, in ns: a machine for each memory and its cores."""
    cases = {name: CASES[name] for name in SHORT} if it.is_ci else CASES
    root = programs_root()
    built = need_all([Kernel(), Plugin(), root])
    places = sorted({(memory, cores) for *both, cores in cases.values() for memory in both})
    keys = (built[Kernel()].key, built[Plugin()].parent.name, built[root].parent.name)

    def file(place: tuple[str, str]) -> Path:
        words = re.sub(r"[^a-z0-9]+", "-", " ".join(place))
        return it.out.parent / "stream" / f"{words}-{'-'.join(keys)}.json"

    found = kept_at_once(
        {place: file(place) for place in places},
        lambda place: _run(place, built[root], places.index(place)),
    )
    return {
        name: {"LightPC": found[ours, cores], "LegacyPC": found[legacy, cores]}
        for name, (ours, legacy, cores) in cases.items()
    }


def _run(place: tuple[str, str], root: Path, number: int) -> dict[str, int]:
    memory, cores = place
    config = replace(make_config(f"stream-{number}", CORES), root=root)
    words = f"{WORKS_FOLDER}/stream --elements {ELEMENTS} --times {TIMES} --threads {CORES}"
    with booted_on(memory, config, cores) as machine:
        said = machine.run_in_guest(words, limit_s=RUN_LIMIT_S).stdout
    times = dict(re.findall(r"(\w+)_ns=(\d+)", said))
    return {kernel: int(times[kernel]) for kernel in KERNELS}


def shares(case: dict[str, dict[str, int]]) -> dict[str, float]:
    """Of LegacyPC's bandwidth, LightPC's."""
    return {kernel: case["LegacyPC"][kernel] / case["LightPC"][kernel] for kernel in KERNELS}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    report.add("paper_mean_share", paper["mean_share"], "")
    for name, case in raw.items():
        report.add(f"mean share, {name}", round(mean(shares(case).values()), 3), "")
    found = shares(raw[OURS])
    for kernel, share in found.items():
        report.add(f"{kernel}_share", round(share, 3), "")
    report.expect("LightPC's bandwidth is below LegacyPC's", max(found.values()) < 1)
    report.expect(
        "Add and Triad, which read more, are closer to LegacyPC than Copy and Scale",
        min(found["add"], found["triad"]) > max(found["copy"], found["scale"]),
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    width = 0.8 / len(raw)
    for index, (name, case) in enumerate(raw.items()):
        at = [x + index * width for x in range(len(KERNELS))]
        axes.bar(at, list(shares(case).values()), width, label=name)
    axes.axhline(paper["mean_share"], color="black", linestyle=":", label="paper's mean")
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(KERNELS))], KERNELS)
    axes.set(ylabel="bandwidth, LegacyPC = 1")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))

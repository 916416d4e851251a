# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, error correction: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    faults = 20_000 if it.is_ci else 1_000_000
    return {
        name: engine.ask("ecc", faults=faults, second_code=second, seed=it.seed)
        for name, second in (("xcc", False), ("xcc_and_second_code", True))
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for name, found in raw.items():
        report.count(f"{name}_faults_of_each_kind", found["faults"], "")
        for kind, seen in found["kinds"].items():
            for outcome in ("repaired", "contained", "silent"):
                report.count(f"{name}_{kind}_{outcome}", seen[outcome], "")
        for kind, silent in found["undetectable"].items():
            report.count(f"{name}_{kind}_silent", silent, "")
            report.expect(f"{name}: no {kind} is seen, as no code can", silent == found["faults"])
        report.expect(f"{name}: none of the others is silent", found["silent"] == 0)
        for kind in paper["repaired"]:
            seen = found["kinds"][kind]
            report.expect(f"{name}: every {kind} is repaired or harmless",
                          seen["contained"] == seen["silent"] == 0)  # fmt: skip
        ages = found["generations"]
        report.count(f"{name}_generation_reads", ages["reads"], "")
        report.count(f"{name}_generation_programs", ages["programs"], "")
        for share in ("time_share", "energy_share"):
            report.add(f"{name}_generation_read_{share}", round(ages[share], 3), "ratio")
        report.expect(f"{name}: what ages cost is counted", 0 < ages["reads"] <= ages["programs"])
    both = raw["xcc_and_second_code"]["kinds"]["two-devices"]
    report.expect("the second code repairs two devices", both["contained"] == 0)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    del paper
    for axes, (name, found) in zip(figure.subplots(1, 2), raw.items(), strict=True):
        kinds = found["kinds"]
        left = [0] * len(kinds)
        for outcome in ("harmless", "repaired", "contained", "silent"):
            share = [seen[outcome] / found["faults"] for seen in kinds.values()]
            axes.barh(list(kinds), share, left=left, label=outcome)
            left = [a + b for a, b in zip(left, share, strict=True)]
        axes.set(title=name)
        axes.legend(frameon=False, fontsize=6)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, wear levelling: see README.md."""

from __future__ import annotations

from typing import Any

from lab.bench.media import LIFE, RESEEDED
from lab.experiment.run import Context, Report
from lab.media.engine import Engine
from lab.media.redis import ensure_redis_trace

PAPER = {**RESEEDED, "regions": 1, "swap_writes": 0}
NOTHING = {**PAPER, "start_gap": False, "randomize": False}
ATTACKS = (1, 2, 16, 256)
SIZES = ((1024, 32), (2048, 64), (4096, 64), (8192, 64), (16384, 64))  # lines, regions


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    # A life in CI is a tenth as long: reseeding then has had a tenth of its turns.
    life = {**LIFE, "endurance_writes": LIFE["endurance_writes"] // (10 if it.is_ci else 1)}

    def live(wear: dict[str, Any], **more: Any) -> Any:
        return engine.ask("wear", wear=wear, **{**life, **more})

    names = ("Redis", "gcc") if it.is_ci else ("Redis", "gcc", "SNAP", "SQLite", "mcf")
    benign: dict[str, Any] = {name: {"workload": name} for name in names}
    if not it.is_ci:
        benign["redis, recorded"] = {"trace": str(ensure_redis_trace())}
    large = {"lines": 1 << 20, "endurance_writes": 1_000_000}
    return {
        "benign": {name: live(RESEEDED, **of) for name, of in benign.items()},
        "benign_paper": {name: live(PAPER, **of) for name, of in benign.items()},
        "benign_nothing": {name: live(NOTHING, **of) for name, of in benign.items()},
        "attack": {str(n): live(RESEEDED, attack_lines=n) for n in ATTACKS},
        "attack_paper": {str(n): live(PAPER, attack_lines=n, **large) for n in ATTACKS},
        "attack_small_regions_only": live({**RESEEDED, "swap_writes": 0}, attack_lines=1),
        # Larger memories: regions are larger, too, as few enough must be visited often enough.
        "attack_by_lines": {
            lines: live({**RESEEDED, "regions": regions}, attack_lines=1, lines=lines)
            for lines, regions in (SIZES[:2] if it.is_ci else SIZES)
        },
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for kind in ("benign", "benign_paper", "benign_nothing", "attack", "attack_paper"):
        worst = min(raw[kind].values(), key=lambda case: case["lifetime"])
        report.add(f"lifetime_{kind}_min", round(worst["lifetime"], 6), "of ideal")
        report.add(f"extra_writes_{kind}", round(worst["extra_write_share"], 4), "of writes")
    report.add("paper_lifetime", paper["lifetime"], "of ideal")
    for lines, case in raw["attack_by_lines"].items():
        report.add(f"lifetime_attack_{lines}_lines", round(case["lifetime"], 4), "of ideal")
    only = raw["attack_small_regions_only"]["lifetime"]
    report.add("lifetime_attack_without_reseeding", round(only, 5), "of ideal")
    bytes_paper = next(iter(raw["benign_paper"].values()))["register_bytes"]
    report.count("register_bytes_paper", bytes_paper, "bytes")
    report.count("register_bytes_reseeded", next(iter(raw["attack"].values()))["register_bytes"],
                 "bytes")  # fmt: skip
    report.expect("the paper's registers are below 64 bytes",
                  bytes_paper < paper["register_bytes_max"])  # fmt: skip
    weak = raw["attack_paper"]["1"]["lifetime"]
    report.expect("the paper's leveler is weak to the malicious pattern", weak < 0.01)
    report.expect("without reseeding small regions do not help", only < 0.1)
    if any(case["reseedings"] > 20_000 for case in raw["attack"].values()):
        for kind in ("benign", "attack", "attack_by_lines"):
            least = min(case["lifetime"] for case in raw[kind].values())
            report.expect(f"{kind}: at least {paper['required']} of ideal",
                          least >= paper["required"])  # fmt: skip


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for kind in ("benign_nothing", "benign_paper", "benign", "attack_paper", "attack"):
        for name, case in raw[kind].items():
            axes.bar(f"{kind}\n{name}", case["lifetime"])
    axes.axhline(paper["lifetime"], color="black", linestyle=":")
    axes.tick_params(axis="x", rotation=80, labelsize=6)
    axes.set(ylabel="lifetime, ideal = 1")

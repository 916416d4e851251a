# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, wear levelling: see README.md."""

from __future__ import annotations

import math
from typing import Any

from lab.bench.media import LIFE, REGION_LINES, RESEEDED
from lab.experiment.run import Context, Report
from lab.media.engine import Engine
from lab.media.redis import redis_trace

PAPER = {**RESEEDED, "regions": 1, "swap_writes": 0}
NOTHING = {**PAPER, "start_gap": False, "randomize": False}
# Below 64 bytes of registers and reseeded: one region, in which exchanges alone move lines.
ONE_REGION = {**RESEEDED, "regions": 1, "start_gap": False}
BENIGN = {"benign": RESEEDED, "benign_paper": PAPER, "benign_nothing": NOTHING}
ATTACKS = (1, 16, 64, 256)
LARGE = {"lines": 1 << 20, "endurance_writes": 1_000_000}
LARGER_LINES = 8192
LARGER_ATTACKS = (1, 16, 256)
# Lines of a region, with few lines attacked: where a visit no longer goes all around a region.
REGION_SWEEP = (8, 16, 32)
REGION_ATTACK = 16
SLACK = 1.1  # the largest of some thousand chances varies by a tenth of itself
# What the analysis is asked: how large a memory may be, with extra writes of less than 3 %.
ENDURANCES = (10**7, 10**8, 10**9)
SWAPS = (128, 256, 512, 1024)


class Lives:
    """Lives of one memory, unless stated otherwise."""

    def __init__(self, engine: Engine, life: dict[str, Any]) -> None:
        self.engine, self.life = engine, life

    def ask(self, wear: dict[str, Any], **more: Any) -> dict[str, Any]:
        """How long it lives, and what was asked."""
        job = {**self.life, **more}
        return {**self.engine.ask_once("wear", wear=wear, **job), **wear, **job}


def _regions(lines: int, region_lines: int = REGION_LINES) -> dict[str, Any]:
    return {**RESEEDED, "regions": lines // region_lines}


def measure(it: Context) -> dict[str, Any]:
    # A life in CI is a twentieth as long: reseeding then has had a twentieth of its turns.
    life = {**LIFE, "endurance_writes": LIFE["endurance_writes"] // (20 if it.is_ci else 1)}
    lives = Lives(Engine.ready(), life)
    small = LIFE["lines"]
    names = ("Redis", "gcc") if it.is_ci else ("Redis", "gcc", "mcf")
    benign: dict[str, Any] = {name: {"workload": name} for name in names}
    attacks = ATTACKS[::2] if it.is_ci else ATTACKS
    larger = {"lines": LARGER_LINES}
    found: dict[str, Any] = {
        **{kind: {} for kind in BENIGN},
        "attack": {str(n): lives.ask(RESEEDED, attack_lines=n) for n in attacks},
        "attack_larger": {}
        if it.is_ci
        else {
            str(n): lives.ask(_regions(LARGER_LINES), attack_lines=n, **larger)
            for n in LARGER_ATTACKS
        },
        "attack_region_lines": {
            str(lines): lives.ask(_regions(small, lines), attack_lines=REGION_ATTACK)
            for lines in REGION_SWEEP[:: 2 if it.is_ci else 1]
        },
        "attack_one_region": {str(n): lives.ask(ONE_REGION, attack_lines=n) for n in attacks[:2]},
        "attack_paper": {str(n): lives.ask(PAPER, attack_lines=n, **LARGE) for n in attacks},
        "attack_paper_small": {"1": lives.ask(PAPER, attack_lines=1)},
        "attack_small_regions_only": {
            "1": lives.ask({**RESEEDED, "swap_writes": 0}, attack_lines=1)
        },
    }
    if not it.is_ci:
        benign["redis, recorded"] = {"trace": str(redis_trace())}
    for kind, wear in BENIGN.items():
        found[kind] = {name: lives.ask(wear, **of) for name, of in benign.items()}
    return found


def analysed(case: dict[str, Any]) -> float:
    """What the README derives for an attack on a memory with regions and reseeding."""
    lines, regions, attacked = case["lines"], case["regions"], case["attack_lines"]
    endured, swap, threshold = (
        case["endurance_writes"],
        case["swap_writes"],
        case["threshold_writes"],
    )
    region_lines = lines // regions
    extra = 1 / threshold + 2 / swap
    # Attacked lines in a region while one is: all of them turn it.
    share = 1 + (attacked - 1) / regions
    one_place = (region_lines + 1) * threshold / share  # writes of a line before the gap moves it
    turns = lines * swap / 2 / attacked / (one_place * region_lines)  # of a region, in a stay
    left = one_place * (1 - turns) if turns < 1 else one_place / (4 * turns)
    largest = math.sqrt(2 * math.log(lines + regions))
    chance = largest * math.sqrt(left / endured)
    stay = swap * regions / (2 * endured)  # the last cycle of regions is not complete
    return float(1 / ((1 + extra) * (1 + chance + stay)))


def least(case: dict[str, Any]) -> float:
    """What a life may not be below."""
    return 1 - SLACK * (1 - analysed(case))


def _lines_max(endured: int, required: float) -> tuple[int, int]:
    """The largest memory for which the analysis gives what is required, whatever is attacked; and
    the lines of its regions."""
    best = (0, 0)
    for lines in (1 << bits for bits in range(8, 37)):
        for region_lines in (REGION_LINES << bits for bits in range(9)):
            worst = max(
                min(
                    analysed(
                        {
                            **_regions(lines, region_lines),
                            "lines": lines,
                            "endurance_writes": endured,
                            "swap_writes": swap,
                            "attack_lines": 1 << bits,
                        }
                    )
                    for bits in range(lines.bit_length())
                )
                for swap in SWAPS
            )
            if worst >= required:
                best = (lines, region_lines)
                break
    return best


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    kinds = [kind for kind, cases in raw.items() if cases]
    for kind in kinds:
        short = min(raw[kind].values(), key=lambda case: float(case["lifetime_of_media"]))
        report.add(f"lifetime_{kind}_min", round(short["lifetime_of_media"], 6), "of ideal")
        report.add(f"extra_writes_{kind}", round(short["extra_write_share"], 4), "of writes")
    report.add("paper_lifetime", paper["lifetime"], "of ideal")
    reseeded = [
        (
            f"{case['lines']} lines in {case['regions']} regions, {case['attack_lines']} attacked",
            case,
        )
        for kind in ("attack", "attack_larger", "attack_region_lines")
        for case in raw[kind].values()
    ]
    for name, case in dict(reseeded).items():
        seen, bound = case["lifetime_of_media"], analysed(case)
        report.add(f"lifetime, {name}", round(seen, 4), "of ideal")
        report.add(f"analysis, {name}", round(bound, 4), "of ideal")
        report.expect(f"{name}: {seen:.4f}, by analysis {bound:.4f}", seen >= least(case))
    for endured in ENDURANCES:
        lines, region_lines = _lines_max(endured, paper["required"])
        report.add(f"lines_max, {endured:.0e} writes endured", lines, "")
        report.add(f"region_lines, {endured:.0e} writes endured", region_lines, "")
    _judge_registers(raw, paper, report)
    weak = raw["attack_paper"]["1"]["lifetime"]
    report.expect("the paper's leveler is weak to the malicious pattern", weak < 0.01)
    only = raw["attack_small_regions_only"]["1"]["lifetime"]
    report.expect("without reseeding small regions do not help", only < 0.1)
    if raw["attack_larger"]:  # lives in CI are too short
        small = raw["attack_paper_small"]["1"]["lifetime"]
        report.expect("but not where its gap goes around often in a life", small > 0.95)
        for kind in ("benign", "attack", "attack_larger", "attack_one_region"):
            worst = min(case["lifetime_of_media"] for case in raw[kind].values())
            report.expect(f"{kind}: at least {paper['required']} of ideal",
                          worst >= paper["required"])  # fmt: skip


def _judge_registers(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    limit = paper["register_bytes_max"]
    for kind in ("attack_paper", "attack_one_region", "attack"):
        found = next(iter(raw[kind].values()))["register_bytes"]
        report.count(f"register_bytes_{kind}", found, "bytes")
        if kind != "attack":
            report.expect(f"{kind}: registers are below {limit} bytes", found < limit)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    drawn = (
        "benign_nothing",
        "benign_paper",
        "benign",
        "attack_paper",
        "attack_paper_small",
        "attack_one_region",
        "attack_region_lines",
        "attack",
        "attack_larger",
    )
    for kind in drawn:
        for name, case in raw[kind].items():
            axes.bar(f"{kind}\n{name}", case["lifetime_of_media"])
            if kind in ("attack", "attack_larger", "attack_region_lines"):
                axes.plot([f"{kind}\n{name}"], [analysed(case)], "k_", markersize=8)
    axes.axhline(paper["required"], color="black", linestyle=":")
    axes.tick_params(axis="x", rotation=80, labelsize=5)
    axes.set(ylabel="lifetime, all lines of media = 1; lines: analysis")

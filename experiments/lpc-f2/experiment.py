# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, Figure 2b: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory
from lab.parts import part_number

# The paper's DIMM-level device is an emulation atop its own PRAM, seen at the memory controller:
# no path of a core, and PRAM's read time in place of the media's.
PRAM_READ_NS = part_number("lpc-fig2", "read_ns")
EMULATED = {"core_path_ns": 0, "media_read_ns": PRAM_READ_NS, "media_send_ns": 0}
# What a block that comes into SRAM waits for, of the one that leaves it. VANS' order has, by its
# table, tCWL, four columns and tWTR: those of one bank group (_L) or of several (_S).
PUBLISHED = ("VANS' order; tWTR_S", "VANS' order; tWTR_L")
MAKE_ROOM: dict[str, dict[str, float]] = {
    "nothing: it leaves later": {"make_room_ns": 0},
    "its burst": {"make_room_ns": 12},
    PUBLISHED[0]: {"make_room_ns": 28.5},
    PUBLISHED[1]: {"make_room_ns": 33},
    "VANS' order; tWTR_S, all columns in one bank group": {"make_room_ns": 35.25, "fill_ns": 18.75},
    "VANS' order; tWTR_L, all columns in one bank group": {"make_room_ns": 39.75, "fill_ns": 18.75},
    "a whole access before the next": {"make_room_ns": 57.75},
}
# One row of DRAM after another in one bank, so that no row is ever open.
ROWS_APART = {"banks": 1, "bank_groups": 1, "channels": 1, "row_bytes": 64}


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    requests = 2_000 if it.is_ci else 50_000
    bare = memory("bare-pram", part="lpc-fig2")

    def ask(on: dict[str, Any], percent: int, span: int | None = None) -> Any:
        return engine.ask(
            "traffic", memory=on, lines=1 << 22, span_lines=span, read_percent=percent,
            requests=requests,
        )  # fmt: skip

    def case(answer: Any) -> dict[str, float]:
        return {k: v for k, v in answer.items() if k.endswith("_ns")}

    dimm = memory("optane", change=EMULATED)
    sweep = {
        name: case(ask(memory("optane", change=EMULATED | change), 0, 1 << 15))
        for name, change in MAKE_ROOM.items()
    }
    return {
        "sweep": sweep,
        "dram_read": case(ask(memory("dram", change=ROWS_APART), 100)),
        "bare_read": case(ask(bare, 100)),
        "bare_write": case(ask(bare, 0)),
        "dimm_read": case(ask(dimm, 100)),
        "dimm_write_hit": case(ask(dimm, 0, 256)),
        "dimm_write_miss": case(ask(dimm, 0, 1 << 15)),
        "dimm_write_full": case(ask(dimm, 0)),
    }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    bare_write = raw["bare_write"]["write_min_ns"]
    ours = {
        "write_gain_max": bare_write / raw["dimm_write_hit"]["write_min_ns"],
        "write_gain_min": bare_write / raw["dimm_write_miss"]["write_mean_ns"],
        "read_loss": raw["dimm_read"]["read_mean_ns"] / raw["bare_read"]["read_min_ns"],
    }
    for name, value in ours.items():
        off = (value / paper[name] - 1) * 100
        report.add(name, round(value, 3), "")
        report.add(f"{name}_off_percent", round(off, 2), "%")
        report.expect(
            f"{name} is {paper[name]} within {paper['tolerance_percent']} %",
            abs(off) <= paper["tolerance_percent"],
        )
    for name, swept in raw["sweep"].items():
        gain = bare_write / swept["write_mean_ns"]
        report.add(f"write_gain_min, if it waits for {name}", round(gain, 3), "")
        if name in PUBLISHED:
            report.expect(
                f"write_gain_min is within {paper['tolerance_percent']} % by {name}",
                abs(gain / paper["write_gain_min"] - 1) * 100 <= paper["tolerance_percent"],
            )
    over = (raw["bare_read"]["read_min_ns"] / raw["dram_read"]["read_min_ns"] - 1) * 100
    report.add("bare_read_over_dram_percent", round(over, 2), "%")
    report.expect("bare reads are within 5 % of DRAM's", abs(over) <= 5)
    spread = raw["dimm_read"]["read_max_ns"] / raw["bare_read"]["read_max_ns"]
    report.add("dimm_read_max_over_bare_max", round(spread, 2), "")
    report.expect("a DIMM's read latency varies more than bare PRAM's", spread > 1)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    del paper
    axes = figure.subplots()
    for name, case in raw.items():
        if name == "sweep":
            continue
        kind = "read" if "read" in name else "write"
        axes.bar(name, case[f"{kind}_mean_ns"])
        axes.plot([name, name], [case[f"{kind}_min_ns"], case[f"{kind}_max_ns"]], "k-")
    axes.set(ylabel="ns; the line is from shortest to longest", yscale="log")

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, sections 2 and 6, several NVDIMMs and memories of two kinds: see README.md."""

from __future__ import annotations

import socket
import tempfile
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

from lab import format as fmt
from lab.experiment.placement import INTERLEAVED, PLACEMENTS, WRITTEN, landed, pages_of
from lab.experiment.power_parts import assumed, power_number, with_number
from lab.experiment.processors import processor_number
from lab.experiment.run import Context, Report
from lab.experiment.tapes import PLAIN, filtered, record
from lab.machine.nvdimm import KIND, NvdimmController, NvdimmFiles, State
from lab.media.engine import Engine, memory, value
from lab.media.redis import redis_trace
from lab.parts import part_number
from lab.setup.heap import HeapProgram
from lab.setup.products import need

GIB = 1 << 30
SIZES_GIB = (1, 2, 4, 8, 16)
# Machines of so many modules of this size, up to as much memory as the paper's largest.
MODULE_GIB = 8
MODULES = (1, 2, 4, 8, 16, 32, 64, 128)
TOGETHER, IN_TURN = "together", "in turn"
# A module that waits for its turn is refreshed by its own capacitor, as DRAM is by a battery.
REFRESH = ("nvdimm", "battery", "hold_mw_per_gib")
FACTORS = (Fraction(1, 2), Fraction(2))  # of what is ASSUMED
# Modules of the laboratory: files of this size, whose controllers share nothing.
FILES, FILE_BYTES = 3, 8 << 20
SAVE, CONTENT = bytes([int(fmt.CONST["REM_NVDIMM_SAVE"])]), b"kept"

# The paper's Intel testbed with 48 GiB in 12 modules: some NVDIMM-N, the others of one of these.
MACHINE, PROCESSOR, CAPACITOR = "wsp-intel-c5528", "wsp-c5528", "supercapacitor"
SLOTS, SLOT_GIB = 12, 4
SCM_MODULES = (0, 3, 6, 9, 12)
SCM = {"Optane": ("optane", "optane-200-128"), "OC-PMEM": ("lightpc", "lpc-table1")}
# Their numbers that are ASSUMED and that a flush depends on; the largest page is the table's.
SWEPT: dict[str, dict[str, tuple[Fraction, ...]]] = {
    "Optane": {"media_banks": FACTORS},
    "OC-PMEM": {"page_bytes": FACTORS[:1], "program_ns": FACTORS},
}
IN_ORDER = "lines in order"
TABLE, REDIS = "hash table", "redis"
OPERATIONS = 100_000


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    raw: dict[str, Any] = {
        "sizes": {str(gib): _module(it.model, gib) for gib in SIZES_GIB},
        "groups": {way: _groups(it.model, way) for way in (TOGETHER, IN_TURN)},
        "assumed": _assumed(it),
        "images": {"of all": _images(it, FILES), "of all but one": _images(it, FILES - 1)},
        "mixed": {name: _mixed(it, engine, name) for name in SCM},
        "swept": {name: _swept(it, engine, name) for name in SCM},
    }
    if not it.is_ci:
        raw["placed"] = _placed()
        raw["placed_stops"] = {name: _placed_stops(it, engine, name, raw) for name in SCM}
    return raw


# Several modules.


def _module(model: Any, gib: int) -> dict[str, int]:
    answer = model.ask("nvdimm", name=KIND, bytes=gib * GIB)
    return {key: answer[key] for key in ("save_ns", "save_pj", "full_pj")}


def _waits_ns(module: dict[str, int], way: str, count: int) -> list[int]:
    """Until each of these modules begins to save. Together none waits: they "do not use any shared
    resources" (WSP, section 2)."""
    return [place * module["save_ns"] if way == IN_TURN else 0 for place in range(count)]


def _is_whole(model: Any, module: dict[str, int], refreshed_pj: int) -> bool:
    """Whether a save is whole if refreshing has taken so much of the charge before it."""
    charge_pj = max(0, module["full_pj"] - refreshed_pj)
    state = {"charge": charge_pj, "cycles": 0, "flash": "erased"}
    words = {"name": KIND, "bytes": MODULE_GIB * GIB, "state": state, "event": "save"}
    return bool(model.ask("nvdimm-event", **words)["state"]["flash"] == "whole")


def _saved(model: Any, way: str, count: int, refresh_mw: int) -> int:
    """How many of these modules are saved; one that waits longer has less charge."""
    module = _module(model, MODULE_GIB)
    waits_ns = _waits_ns(module, way, count)
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _is_whole(model, module, refresh_mw * waits_ns[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def _groups(model: Any, way: str) -> dict[str, Any]:
    """By number of modules: until the last one is saved, how many are, and the energy of all."""
    module = _module(model, MODULE_GIB)
    refresh_mw = power_number(*REFRESH) * MODULE_GIB
    found = {}
    for count in MODULES:
        waits_ns = _waits_ns(module, way, count)
        found[str(count)] = {
            "last_ns": waits_ns[-1] + module["save_ns"],
            "saved": _saved(model, way, count, refresh_mw),
            "energy_pj": count * module["save_pj"] + refresh_mw * sum(waits_ns),
        }
    return found


def _assumed(it: Context) -> dict[str, dict[str, int]]:
    """Modules of the largest machine that are saved, with a number that is ASSUMED changed."""
    found = {}
    fields = [("nvdimm", KIND, field) for field in assumed("nvdimm", KIND)]
    with tempfile.TemporaryDirectory(prefix="rem-wsp-nvdimm-") as folder:
        for place in (*fields, REFRESH):
            for factor in FACTORS:
                number = int(power_number(*place) * factor)
                model = with_number(it.model, Path(folder), place, number)
                refresh_mw = (number if place == REFRESH else power_number(*REFRESH)) * MODULE_GIB
                found[f"{place[-1]} x {float(factor):g}"] = {
                    way: _saved(model, way, max(MODULES), refresh_mw) for way in (TOGETHER, IN_TURN)
                }
    return found


def _images(it: Context, ordered: int) -> int:
    """How many modules of the laboratory have an image, if so many got the order before the cut."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rem-wsp-nvdimm-")))
        modules = []
        for number in range(FILES):
            names = (folder / f"{part}-{number}" for part in ("dram", "flash", "state"))
            controller = NvdimmController(NvdimmFiles(*names), FILE_BYTES, it.model)
            modules.append(controller)
            controller.power_on()
            stack.callback(controller.power_off)
            ours, theirs = socket.socketpair()
            stack.callback(theirs.close)
            controller.serve(ours)
            controller.files.dram.write_bytes(CONTENT.ljust(FILE_BYTES, b"\0"))
            if number < ordered:
                theirs.send(SAVE)
        for controller in modules:
            controller.power_off()
        for controller in modules:
            controller.power_on()
        images = [one.files.flash for one in modules if one.state is State.IMAGE]
        return sum(image.read_bytes().startswith(CONTENT) for image in images)


# A machine with both kinds.


def _budget(it: Context, **given: int) -> dict[str, Any]:
    words = {"machine": MACHINE, "load": "busy", "capacitor": CAPACITOR}
    answer: dict[str, Any] = it.model.ask("budget", **words, given=given)
    return answer


def _flush(it: Context, **given: int) -> dict[str, int]:
    """The phase of a Stop: of all caches, unless fewer bytes are dirty."""
    phases: dict[str, dict[str, int]] = {one["name"]: one for one in _budget(it, **given)["phases"]}
    return phases["flush"]


def _written(engine: Engine, on: dict[str, Any], lines: int, pattern: str) -> dict[str, float]:
    """A memory takes so many lines: time, and energy."""
    if not lines:
        return {"time_ns": 0.0, "energy_pj": 0.0}
    in_flight = int(processor_number(PROCESSOR, "queue_lines"))
    job = {"read_percent": 0, "requests": lines, "in_flight": in_flight, "pattern": pattern}
    answer = engine.ask("traffic", memory=on, **job)
    # The job writes as many lines before, which are in its energy and not in its time.
    energy_pj = value(answer, "energy_write_pj") + value(answer, "energy_activate_pj")
    return {"time_ns": answer["time_ns"], "energy_pj": energy_pj / 2}


def _stop(
    it: Context,
    engine: Engine,
    scm: str,
    modules: int,
    writes_share: float,
    *,
    pattern: str = "random",
    change: dict[str, float] | None = None,
) -> dict[str, Any]:
    """A Stop whose flush writes a share of all lines to so many modules of storage-class memory, in
    a machine whose other modules are NVDIMM-N (WSP, section 6, hybrid systems).

    Both kinds take lines at the same time, while the CPUs walk their caches.
    """
    lines = _flush(it)["lines"]
    scm_lines = round(lines * writes_share)
    far = memory(SCM[scm][0], change={"dimms": modules, **(change or {})})
    near = memory("dram", change={"channels": SLOTS - modules})
    far_side = _written(engine, far, scm_lines, pattern)
    near_side = _written(engine, near, lines - scm_lines, pattern)
    walk_ns = _flush(it, dirty_bytes=0)["time_ns"]
    flush_ns = round(max(walk_ns, far_side["time_ns"], near_side["time_ns"]))
    budget = _budget(it, flush_ns=flush_ns)
    return {
        "modules": modules,
        "lines": lines,
        "scm_lines": scm_lines,
        "walk_ns": walk_ns,
        "flush_ns": flush_ns,
        "stop_ns": budget["stop_ns"],
        # The budget has each line as one of DRAM, too, so that this is a little too large.
        "stop_pj": round(budget["energy_pj"] + far_side["energy_pj"]),
        "capacitance_uf": budget["capacitance_uf"],
        "save_pj": (SLOTS - modules) * _module(it.model, SLOT_GIB)["save_pj"],
    }


def _mixed(it: Context, engine: Engine, scm: str) -> list[dict[str, Any]]:
    """By share of the memory; writes land as its modules are interleaved."""
    return [_stop(it, engine, scm, modules, modules / SLOTS) for modules in SCM_MODULES]


def _swept(it: Context, engine: Engine, scm: str) -> dict[str, int]:
    """The Stop without NVDIMM-N: what is ASSUMED changed, and lines that are neighbours."""
    stops = {IN_ORDER: _stop(it, engine, scm, SLOTS, 1, pattern="sequential")}
    for field, factors in SWEPT[scm].items():
        for factor in factors:
            change = {field: part_number(SCM[scm][1], field) * float(factor)}
            name = f"{field} x {float(factor):g}"
            stops[name] = _stop(it, engine, scm, SLOTS, 1, change=change)
    return {name: one["stop_ns"] for name, one in stops.items()}


def _placed() -> dict[str, Any]:
    """By program, placement and modules of NVDIMM-N: the shares of writes and reads that these
    get, of the second half of the program's requests. WSP, section 6, leaves the mapping of pages
    to memories open."""
    with tempfile.TemporaryDirectory(prefix="rem-wsp-nvdimm-") as name:
        tapes = record(need(HeapProgram()), Path(name), ["FoF"], OPERATIONS)
        traces = {
            TABLE: pages_of(filtered(tapes["FoF"], PLAIN, Path(name) / "table").once),
            REDIS: pages_of(redis_trace()),
        }
    return {
        program: {
            "pages": len(pages.numbers),
            **{
                placement: {
                    str(SLOTS - modules): landed(pages, placement, Fraction(SLOTS - modules, SLOTS))
                    for modules in SCM_MODULES
                }
                for placement in PLACEMENTS
            },
        }
        for program, pages in traces.items()
    }


def _placed_stops(it: Context, engine: Engine, scm: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Stops of a machine with redis: a line that is dirty lands where its writes have landed."""
    return {
        placement: [
            _stop(it, engine, scm, modules,
                  1 - raw["placed"][REDIS][placement][str(SLOTS - modules)]["writes"])
            for modules in SCM_MODULES
        ]
        for placement in (INTERLEAVED, WRITTEN)
    }  # fmt: skip


def _judge_modules(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for gib, module in raw["sizes"].items():
        report.add(f"{gib} GiB, save_ns", module["save_ns"], "ns")
        report.add(f"{gib} GiB, save_pj", module["save_pj"], "pJ")
        report.add(f"{gib} GiB, supply_pj", module["full_pj"], "pJ")
        ratio = round(module["full_pj"] / module["save_pj"], 2)
        report.add(f"{gib} GiB, supply over save", ratio, "x")
    together, in_turn = (raw["groups"][way] for way in (TOGETHER, IN_TURN))
    one, most = str(min(MODULES)), str(max(MODULES))
    for way, groups in raw["groups"].items():
        over = round(groups[most]["last_ns"] / groups[one]["last_ns"], 2)
        report.add(f"{way}, all over one", over, "x")
        report.add(f"{way}, modules lost", int(most) - groups[most]["saved"], "modules")
        for count, group in groups.items():
            report.add(f"{way}, {count} modules, ns", group["last_ns"], "ns")
            report.add(f"{way}, {count} modules, pj", group["energy_pj"], "pJ")
    report.add("in turn, modules saved", in_turn[most]["saved"], "modules")
    report.expect("together, modules are saved in the time of one, however many", all(
        group["last_ns"] == together[one]["last_ns"] for group in together.values()
    ))  # fmt: skip
    report.expect("one after another, twice as many modules take twice as long", all(
        in_turn[str(2 * count)]["last_ns"] == 2 * in_turn[str(count)]["last_ns"]
        for count in MODULES[:-1]
    ))  # fmt: skip
    report.expect("one after another, the last module of a large machine has lost its charge",
                  in_turn[most]["saved"] < int(most))  # fmt: skip
    for name, case in raw["assumed"].items():
        report.add(f"in turn, modules saved, {name}", case[IN_TURN], "modules")
        report.expect(f"{name}: together, no module is lost", case[TOGETHER] == int(most))
    for what, images in raw["images"].items():
        report.count(f"images, order to {what.removeprefix('of ')}", images, "images")
    report.expect("each module that got the order has its image, and no other",
                  raw["images"] == {"of all": FILES, "of all but one": FILES - 1})  # fmt: skip


def _judge_mixed(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for scm, stops in raw["mixed"].items():
        for one in stops:
            name = f"{scm}, {one['modules']} of {SLOTS}"
            for key, unit in (("flush_ns", "ns"), ("stop_ns", "ns"), ("stop_pj", "pJ"),
                              ("save_pj", "pJ"), ("capacitance_uf", "uF")):  # fmt: skip
                report.add(f"{name}, {key}", one[key], unit)
            report.add(f"{name}, scm_lines", one["scm_lines"], "lines")
        for window_ms in paper["windows_ms"]:
            held = [one["modules"] for one in stops if one["stop_ns"] <= window_ms * 10**6]
            report.add(f"{scm}, modules held by {window_ms} ms", max(held, default=0), "modules")
        times_ns = [one["stop_ns"] for one in stops]
        report.expect(f"{scm}: the more of it, the longer the Stop, or as long",
                      times_ns == sorted(times_ns))  # fmt: skip
        saves_pj = [one["save_pj"] for one in stops]
        report.expect(
            f"{scm}: the more of it, the less energy do the modules' capacitors hold, down to none",
            saves_pj == sorted(set(saves_pj), reverse=True) and saves_pj[-1] == 0,
        )
        report.expect(f"{scm}: NVDIMM-N alone is held by the shortest window",
                      times_ns[0] <= min(paper["windows_ms"]) * 10**6)  # fmt: skip
        for what, stop_ns in raw["swept"][scm].items():
            report.add(f"{scm}, {SLOTS} of {SLOTS}, stop_ns, {what}", stop_ns, "ns")


def _judge_placed(raw: dict[str, Any], report: Report) -> None:
    for program, rows in raw["placed"].items():
        report.count(f"{program}, pages", rows["pages"], "pages")
        for placement in PLACEMENTS:
            for modules, shares in rows[placement].items():
                for what, share in shares.items():
                    name = f"{program}, {placement}, {modules} of {SLOTS}, {what}_percent"
                    report.result.add(name, round(share * 100, 1), "%", "counted")
            writes = [shares["writes"] for shares in rows[placement].values()]
            report.expect(
                f"{program}, {placement}: all, none and shares of the writes in between",
                writes == sorted(writes, reverse=True) and (writes[0], writes[-1]) == (1, 0),
            )
        # The ends have all and nothing.
        inner = list(rows[WRITTEN])[1:-1]
        report.expect(
            f"{program}: pages that were written most get more of the writes than interleaved ones",
            all(
                rows[WRITTEN][modules]["writes"] > rows[INTERLEAVED][modules]["writes"]
                for modules in inner
            ),
        )
    for scm, by_placement in raw["placed_stops"].items():
        for placement, stops in by_placement.items():
            for one in stops:
                name = f"{scm}, {one['modules']} of {SLOTS}, redis, {placement}"
                report.add(f"{name}, stop_ns", one["stop_ns"], "ns")


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    _judge_modules(raw, paper, report)
    _judge_mixed(raw, paper, report)
    if "placed" in raw:
        _judge_placed(raw, report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    several, mixed, placed = figure.subplots(1, 3)
    for way, style in ((TOGETHER, "-o"), (IN_TURN, ":o")):
        groups = raw["groups"][way]
        several.plot([int(count) for count in groups],
                     [group["last_ns"] / 1e9 for group in groups.values()],
                     style, markersize=3, label=way)  # fmt: skip
    several.axhline(paper["save_s_max"], color="black", linewidth=0.8, linestyle="--")
    several.set(xscale="log", yscale="log", xlabel=f"modules of {MODULE_GIB} GiB",
                ylabel="s until all are saved; dashed: the paper's limit")  # fmt: skip
    several.legend(frameon=False, fontsize=7)
    for number, (scm, stops) in enumerate(raw["mixed"].items()):
        shares = [one["modules"] / SLOTS * 100 for one in stops]
        mixed.plot(shares, [one["stop_ns"] / 1e6 for one in stops], "-o", color=f"C{number}",
                   markersize=3, label=scm)  # fmt: skip
    for window_ms in paper["windows_ms"]:
        mixed.axhline(window_ms, color="black", linewidth=0.8, linestyle=":")
    mixed.set(
        xlabel="% of the memory; the rest is NVDIMM-N", ylabel="ms of Stop; dotted: windows", ylim=0
    )
    energy = mixed.twinx()
    energy.plot(shares, [one["save_pj"] / 1e15 for one in stops], color="0.6")
    energy.set(ylabel="grey: kJ of the modules' saves", ylim=0)
    mixed.legend(frameon=False, fontsize=7)
    for placement in PLACEMENTS if "placed" in raw else ():
        rows = raw["placed"][REDIS][placement]
        placed.plot([int(modules) / SLOTS * 100 for modules in rows],
                    [shares["writes"] * 100 for shares in rows.values()],
                    "-o", markersize=3, label=placement)  # fmt: skip
    placed.set(xlabel="% of redis' pages in NVDIMM-N", ylabel="% of its writes")
    if "placed" in raw:
        placed.legend(frameon=False, fontsize=7)

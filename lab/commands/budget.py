# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem budget`: energy of a Stop, what a supply has of it, and the capacitor that is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.command_line.options import JsonOption, takes
from lab.errors import Exit, UsageError
from lab.quantities import parse_bytes, parse_ns

if TYPE_CHECKING:
    from lab.power.budget import Plan


@dataclass(frozen=True)
class StopWords:
    """What is known of the Stop, instead of the model's answer."""

    park: Annotated[
        str | None,
        typer.Option(help="Until all CPUs are parked; default: the bound.", metavar="TIME"),
    ] = None
    flush: Annotated[
        str | None,
        typer.Option(
            help="Flush of the caches; default: all of them at their rate.", metavar="TIME"
        ),
    ] = None
    dirty: Annotated[
        str | None,
        typer.Option(help="What the flush writes; default: by the load.", metavar="SIZE"),
    ] = None


@dataclass(frozen=True)
class SupplyWords:
    """Supplies, capacitors and NVDIMMs."""

    supply: Annotated[
        str | None, typer.Option(help="Check this one: exit code 1 if it does not last.")
    ] = None
    power_cycles: Annotated[int, typer.Option(help="Age of the supply, in power cycles.")] = 0
    capacitor: Annotated[str, typer.Option(help="The kind of capacitor.")] = "supercapacitor"
    capacitor_cycles: Annotated[
        int, typer.Option(help="After so many cycles the capacitor must still be large enough.")
    ] = 100_000
    nvram: Annotated[
        str | None, typer.Option(help="Print what saving an NVDIMM takes.", metavar="SIZE")
    ] = None
    nvdimm: Annotated[str, typer.Option(help="The kind of NVDIMM.")] = "agiga"


@dataclass(frozen=True)
class BudgetWords:
    """The command line as typed."""

    machine: Annotated[str, typer.Option(help="The machine that draws the power.")] = "reference"
    load: Annotated[str, typer.Option(help="busy or idle.")] = "busy"
    margin: Annotated[str, typer.Option(help="How many times what is needed: 1.5, 150%.")] = "2"
    supply_words: SupplyWords = field(default_factory=SupplyWords)
    stop_words: StopWords = field(default_factory=StopWords)
    profiles: Annotated[
        Path | None, typer.Option(help="Instead of models/parts/power.toml.", metavar="FILE")
    ] = None
    picture: Annotated[
        Path | None, typer.Option(help="Draw it: svg, png or pdf.", metavar="FILE")
    ] = None
    as_json: JsonOption = False


def check(words: BudgetWords) -> Plan:
    """A plan that the power model can compute, or UsageError."""
    from lab.power.budget import LOADS, Plan, parse_margin
    from lab.report.timeline_picture import check_format

    supply = words.supply_words
    if words.load not in LOADS:
        raise UsageError(f"--load {words.load}: give {' or '.join(LOADS)}")
    if supply.power_cycles < 0 or supply.capacitor_cycles < 0:
        raise UsageError("cycles count from 0: give a number that is not negative")
    if words.picture is not None:
        check_format(words.picture)
    return Plan(
        machine=words.machine,
        load=words.load,
        margin_permille=parse_margin(words.margin),
        supply=supply.supply,
        capacitor=supply.capacitor,
        power_cycles=supply.power_cycles,
        capacitor_cycles=supply.capacitor_cycles,
        given=_given(words.stop_words),
        nvdimm=supply.nvdimm,
        nvram_bytes=None if supply.nvram is None else _bytes(supply.nvram, "--nvram"),
    )


def _given(words: StopWords) -> dict[str, int]:
    given = {}
    if words.park:
        given["park_ns"] = parse_ns(words.park, "--park")
    if words.flush:
        given["flush_ns"] = parse_ns(words.flush, "--flush")
    if words.dirty is not None:
        given["dirty_bytes"] = _bytes(words.dirty, "--dirty")
    return given


def _bytes(text: str, option: str) -> int:
    value_bytes = parse_bytes(text, option)
    if value_bytes < 0:
        raise UsageError(f"{option}: {value_bytes} bytes is negative")
    return value_bytes


@takes(BudgetWords)
def budget_command(words: BudgetWords) -> int:
    """Print what a Stop takes, which supplies last for it, and the capacitor that is needed.

    Times of a flush are provisional until the memory controller is modelled.
    """
    from lab.power.budget import compute, print_budget, to_result
    from lab.power.model import PowerModel

    plan = check(words)
    model = PowerModel(PowerModel.ready().program, words.profiles)
    answer = compute(model, plan)
    print_budget(plan, answer)
    if words.picture is not None:
        from lab.report.budget_picture import draw

        draw(f"{plan.machine}, {plan.load}: a Stop at its worst", answer, words.picture)
    result = to_result(plan, answer)
    if words.as_json:
        result.emit()
    return Exit.PASS if result.ok else Exit.BROKEN


def register(app: typer.Typer) -> None:
    app.command("budget")(budget_command)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem budget`: energy of a Stop, what a supply has of it, and the capacitor that would do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.errors import Exit, UsageError
from lab.machine.options import JsonOption, parse_bytes, parse_ns


def _checked(load: str, cycles: int, capacitor_cycles: int, picture: Path | None) -> None:
    from lab.power.budget import LOADS
    from lab.report.timeline_picture import FORMATS

    if load not in LOADS:
        raise UsageError(f"--load {load}: give {' or '.join(LOADS)}")
    if cycles < 0 or capacitor_cycles < 0:
        raise UsageError("cycles count from 0 on: give a number that is not negative")
    if picture is not None and picture.suffix[1:] not in FORMATS:
        raise UsageError(f"--picture {picture}: its name ends in one of {', '.join(FORMATS)}")


def register(app: typer.Typer) -> None:
    @app.command("budget")
    def budget_command(  # noqa: PLR0917 - the options of a command, given by name
        machine: Annotated[str, typer.Option(help="Which machine draws it.")] = "reference",
        load: Annotated[str, typer.Option(help="busy or idle.")] = "busy",
        margin: Annotated[
            str, typer.Option(help="How many times what is needed: 1.5, 150%.")
        ] = "2",
        supply: Annotated[
            str | None, typer.Option(help="Judge this one: exit code 1 if it does not last.")
        ] = None,
        capacitor: Annotated[str, typer.Option(help="Its kind.")] = "supercapacitor",
        power_cycles: Annotated[int, typer.Option(help="Age of the supply, in power cycles.")] = 0,
        capacitor_cycles: Annotated[
            int, typer.Option(help="After so many cycles the capacitor must still do.")
        ] = 100_000,
        park: Annotated[
            str | None,
            typer.Option(help="Until all CPUs are parked; else the bound.", metavar="TIME"),
        ] = None,
        flush: Annotated[
            str | None,
            typer.Option(help="Flush of the caches; else all at its rate.", metavar="TIME"),
        ] = None,
        dirty: Annotated[
            str | None,
            typer.Option(help="What the flush writes; else by the load.", metavar="SIZE"),
        ] = None,
        nvram: Annotated[
            str | None, typer.Option(help="Tell what saving an NVDIMM takes.", metavar="SIZE")
        ] = None,
        nvdimm: Annotated[str, typer.Option(help="Its kind.")] = "agiga",
        profiles: Annotated[
            Path | None, typer.Option(help="Instead of models/power/profiles.toml.", metavar="FILE")
        ] = None,
        picture: Annotated[
            Path | None, typer.Option(help="Draw it: svg, png or pdf.", metavar="FILE")
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Tell what a Stop takes, which supplies hold it, and which capacitor would, at what price.

        Times of a flush are provisional until the memory controller is modelled.
        """
        from lab.power.budget import Plan, compute, parse_margin, tell, to_result
        from lab.power.model import PowerModel

        _checked(load, power_cycles, capacitor_cycles, picture)
        times = {"park_ns": ("--park", park), "flush_ns": ("--flush", flush)}
        given = {key: parse_ns(text, what) for key, (what, text) in times.items() if text}
        if dirty is not None:
            given["dirty_bytes"] = parse_bytes(dirty, "--dirty")
        plan = Plan(
            machine=machine, load=load, margin_permille=parse_margin(margin), supply=supply,
            capacitor=capacitor, power_cycles=power_cycles, capacitor_cycles=capacitor_cycles,
            given=given, nvdimm=nvdimm,
            nvram_bytes=None if nvram is None else parse_bytes(nvram, "--nvram"),
        )  # fmt: skip
        negative = {"--dirty": given.get("dirty_bytes", 0), "--nvram": plan.nvram_bytes or 0}
        for what, value in negative.items():
            if value < 0:
                raise UsageError(f"{what}: {value} bytes is negative")
        model = PowerModel(PowerModel.ready().program, profiles)
        answer = compute(model, plan)
        tell(plan, answer)
        if picture is not None:
            from lab.power.budget_picture import draw

            draw(f"{machine}, {load}: a Stop at its worst", answer, picture)
        result = to_result(plan, answer)
        if as_json:
            result.emit()
        return Exit.PASS if result.ok else Exit.BROKEN

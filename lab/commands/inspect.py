# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem inspect`: the image record in a machine's NVRAM, and its last Stop and Go."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.errors import InfraError, UsageError
from lab.machine.options import DEFAULT_NAME, JsonOption
from lab.record import Record, decode, read_block
from lab.say import say
from lab.timeline import Timeline, chrome_trace, timeline_of


def as_json(record: Record, timeline: Timeline | None) -> dict[str, Any]:
    return {**asdict(record), "last": asdict(timeline) if timeline else None}


def write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error
    say(f"rem: wrote {path}")


def nvram_of(name: str | None, file: Path | None) -> Path:
    if file is not None:
        if name is not None:
            raise UsageError("give a machine or --file, not both")
        return file
    from lab.machine.files import MachineFiles

    files = MachineFiles.of(name or DEFAULT_NAME)
    return files.seen(files.read_config())


def register(app: typer.Typer) -> None:
    @app.command("inspect")
    def inspect_command(  # noqa: PLR0917 - the options of a command, given by name
        name: Annotated[
            str | None, typer.Argument(help="The machine (`default` if not given).")
        ] = None,
        file: Annotated[
            Path | None, typer.Option(help="A file that holds an NVRAM instead.", metavar="FILE")
        ] = None,
        json_: JsonOption = False,
        trace: Annotated[
            Path | None,
            typer.Option(help="Write the timeline for ui.perfetto.dev.", metavar="FILE"),
        ] = None,
        picture: Annotated[
            Path | None,
            typer.Option(help="Draw the timeline, as .svg or .png.", metavar="FILE"),
        ] = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Also each entry of the machine descriptions.")
        ] = False,
    ) -> int:
        """Show the image record in a machine's NVRAM and the timeline of its last Stop and Go.

        The machine may be running or off. Exit 1 if something in the record is damaged.
        """
        record = decode(read_block(nvram_of(name, file)))
        timeline = timeline_of(record.newest) if record.newest else None
        if timeline is None and (trace or picture):
            raise UsageError("there is no timeline: no Stop has run on this NVRAM")
        if trace and timeline:
            write_text(trace, json.dumps(chrome_trace(timeline)))
        if picture and timeline:
            from lab.report.timeline_picture import draw

            draw(timeline, picture)
            say(f"rem: wrote {picture}")
        if json_:
            print(json.dumps(as_json(record, timeline)))
        else:
            from rich.console import Console

            from lab.report.record_text import show

            show(Console(file=sys.stdout), record, everything)
        return 1 if record.problems else 0

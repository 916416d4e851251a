# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem parts`: the numbers of the memory models, each with its source."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.command_line.options import JsonOption
from lab.errors import UsageError


def register(app: typer.Typer) -> None:
    @app.command("parts")
    def parts_command(
        part: Annotated[str, typer.Argument(help="Only this part's numbers.")] = "",
        assumed: Annotated[
            bool, typer.Option("--assumed", help="Only numbers without a publication.")
        ] = False,
        as_json: JsonOption = False,
    ) -> None:
        """List every number of every modelled device with its source."""
        from lab.media.engine import Engine
        from lab.result import Result

        rows = Engine.ready().ask("parts")["parts"]
        names = sorted({row["part"] for row in rows})
        if part and part not in names:
            raise UsageError(f"no part {part}: choose one of {', '.join(names)}")
        shown = [
            row
            for row in rows
            if (not part or row["part"] == part) and (row["assumed"] or not assumed)
        ]
        for row in shown:
            print(f"{row['part']:15} {row['parameter']:20} {row['value']:>14g}  {row['source']}")
        if as_json:
            result = Result("parts")
            result.add("numbers", len(shown), "", "counted")
            result.add("assumed", sum(row["assumed"] for row in shown), "", "counted")
            result.emit()

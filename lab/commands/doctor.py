# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem doctor`: what is installed and built, what is missing, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lab.setup.status import Row


def register(app: typer.Typer) -> None:
    @app.command()
    def doctor(
        as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    ) -> None:
        """Report what is installed and built, what is missing and what to do. Changes nothing.

        Exit status 4 when anything is missing.
        """
        import json

        from lab.errors import Exit
        from lab.result import Result
        from lab.setup.status import rows

        found = rows()
        missing = [row for row in found if not row.ok]
        if as_json:
            result = Result("doctor", ok=not missing)
            result.add("missing", len(missing), "1", "counted")
            checks = [{**vars(row), "ok": row.ok} for row in found]
            print(json.dumps({**json.loads(result.as_json()), "checks": checks}))
        else:
            _print_table(found)
        if missing:
            raise typer.Exit(Exit.INFRASTRUCTURE)


def _print_table(found: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("", "what", "found", "to do"):
        table.add_column(title, overflow="fold")
    for row in found:
        table.add_row("ok" if row.ok else "--", row.name, row.found, row.todo)
    Console().print(table, markup=False)

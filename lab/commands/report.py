# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem report`: everything that was measured, beside what the papers give, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.command_line.options import JsonOption
from lab.errors import Exit


def register(app: typer.Typer) -> None:
    @app.command("report")
    def report_command(
        out: Annotated[
            Path | None,
            typer.Option(help="The page; default report/index.html.", metavar="FILE"),
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Write one page: each figure of the papers beside ours, with tolerance and verdict.

        It shows the kept records of docs/figures and measures nothing. Experiments that were never
        measured and records that are older than their code are listed as such. The exit code is 1
        if a value is not within its tolerance and the deviation is not accepted.
        """
        from lab.evaluation.write import write_report
        from lab.messages import info
        from lab.paths import repo_dir

        target = out or repo_dir() / "report" / "index.html"
        result = write_report(repo_dir(), target)
        counts = {name: figure.value for name, figure in result.figures.items()}
        info(
            "{values} values of {experiments} experiments: {within} within, {accepted} accepted"
            " deviations, {deviating} not within, {unmeasured} not measured".format(**counts)
        )
        info(
            "{missing} experiments were never measured, {stale} have a stale record".format(
                **counts
            )
        )
        info(f"Page: {target}")
        if as_json:
            result.emit()
        return Exit.PASS if result.ok else Exit.BROKEN

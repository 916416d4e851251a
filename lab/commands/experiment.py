# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem experiment`: a figure or table of the papers, measured here and drawn beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.command_line.options import JsonOption
from lab.errors import Exit, UsageError


def register(app: typer.Typer) -> None:
    @app.command("experiment")
    def experiment_command(
        name: Annotated[str, typer.Argument(help="The experiment; without one, list them.")] = "",
        tier: Annotated[
            str, typer.Option(help="full, or ci: the same with fewer samples.")
        ] = "full",
        seed: Annotated[int, typer.Option(help="Chooses moments and noise.")] = 1,
        out: Annotated[
            Path | None, typer.Option(help="Folder of raw results and pictures.")
        ] = None,
        redraw: Annotated[
            Path | None, typer.Option(help="Judge and draw kept raw results again.")
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Run an experiment: raw results, figures, and a picture beside the paper's values.

        The exit code is 1 if a statement of the paper does not hold.
        """
        from lab.experiment.run import (
            TIERS,
            Context,
            Experiment,
            Paper,
            folder,
            names,
            results_folder,
        )
        from lab.messages import info
        from lab.power.model import PowerModel

        if tier not in TIERS:
            raise UsageError(f"--tier {tier}: choose {' or '.join(TIERS)}")
        if not name:
            for one in names():
                paper = Paper.read(folder() / one / "paper.toml")
                print(f"{one:12} {paper.title} ({paper.source})")
            return Exit.PASS
        experiment = Experiment.load(name)
        place = out or results_folder(name)
        result = experiment.run(Context(tier, seed, place, PowerModel.ready()), redraw)
        for key, figure in result.figures.items():
            info(f"{key:32} {figure.value!s:>16} {figure.unit:5} {figure.kind}")
        if as_json:
            result.emit()
        return Exit.PASS if result.ok else Exit.BROKEN

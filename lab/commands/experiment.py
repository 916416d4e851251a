# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem experiment`: a figure or table of the papers, measured here and drawn beside theirs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lab.command_line.options import JsonOption, takes
from lab.errors import Exit, UsageError
from lab.result import Result


@dataclass(frozen=True)
class ExperimentWords:
    name: Annotated[str, typer.Argument(help="The experiment; without one, list them.")] = ""
    every: Annotated[bool, typer.Option("--all", help="Every experiment, and a table of them.")] = (
        False
    )
    tier: Annotated[str, typer.Option(help="full, or ci: the same with fewer samples.")] = "full"
    seed: Annotated[int, typer.Option(help="Chooses moments and noise.")] = 1
    out: Annotated[Path | None, typer.Option(help="Folder of raw results and pictures.")] = None
    redraw: Annotated[Path | None, typer.Option(help="Judge and draw kept raw results again.")] = (
        None
    )
    kept: Annotated[
        bool,
        typer.Option(
            "--kept", help="With --all: take raw results of the same code, tier and seed."
        ),
    ] = False
    recorded: Annotated[
        bool, typer.Option("--recorded", help="With --all: read docs/figures, measure nothing.")
    ] = False
    as_json: JsonOption = False


def register(app: typer.Typer) -> None:
    @app.command("experiment")
    @takes(ExperimentWords)
    def experiment_command(words: ExperimentWords) -> int:
        """Run an experiment: raw results, figures, and a picture beside the paper's values.

        The exit code is 1 if a statement of the paper does not hold. --all runs every one, also
        after one that fails, and prints how many points of the papers are held, within 25 % of the
        paper's number, accepted deviations, failed or missing; the exit code is 1 if one fails, or
        if a point is missing and no reason is listed.
        """
        return _all(words) if words.every else _one(words)


def _check_tier(tier: str) -> None:
    from lab.experiment.run import TIERS

    if tier not in TIERS:
        raise UsageError(f"--tier {tier}: choose {' or '.join(TIERS)}")


def _one(words: ExperimentWords) -> int:
    """Run one, or list all."""
    from lab.evaluation.every import code_of
    from lab.experiment.run import Context, Experiment, Paper, folder, names, results_folder
    from lab.paths import repo_dir

    _check_tier(words.tier)
    if words.kept or words.recorded:
        raise UsageError("--kept and --recorded are of --all")
    if not words.name:
        for one in names():
            paper = Paper.read(folder() / one / "paper.toml")
            print(f"{one:12} {paper.title} ({paper.source})")
        return Exit.PASS
    experiment = Experiment.load(words.name)
    place = words.out or results_folder(words.name)
    code = code_of(repo_dir(), words.name)
    it = Context.ready(words.tier, words.seed, place, code)
    return _show(experiment.run(it, words.redraw), words.as_json)


def _all(words: ExperimentWords) -> int:
    """Run all, or read their records."""
    from lab.evaluation.every import Plan, recorded, run_all
    from lab.experiment.run import results_folder
    from lab.messages import info
    from lab.paths import repo_dir

    _check_tier(words.tier)
    if words.name:
        raise UsageError(f"--all and {words.name}: choose one")
    if words.redraw is not None:
        raise UsageError("--redraw is of one experiment: --kept takes raw results of all")
    if words.recorded and (words.kept or words.out is not None):
        raise UsageError("--recorded measures and writes nothing: leave out --kept and --out")

    def results(name: str) -> Path:
        return words.out / name if words.out else results_folder(name)

    if words.recorded:
        summary = recorded(repo_dir())
    else:
        summary = run_all(Plan(repo_dir(), words.tier, words.seed, results, words.kept))
    for line in summary.lines():
        info(line)
    return _show(summary.result("experiment-all"), words.as_json)


def _show(result: Result, as_json: bool) -> int:
    """Print the figures; the exit code."""
    from lab.messages import info

    for key, figure in result.figures.items():
        info(f"{key:32} {figure.value!s:>16} {figure.unit:5} {figure.kind}")
    if as_json:
        result.emit()
    return Exit.PASS if result.ok else Exit.BROKEN

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem experiment --all`: every experiment in turn, and one table of what came of them.

One that raises is a line of the table and a failure; the others run all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lab.docs.records import measured_key, read_table
from lab.errors import RemError, UsageError
from lab.evaluation.collect import (
    Value,
    collect,
    places,
    source_of,
    unmeasured,
    values_of,
)
from lab.evaluation.points import read_points
from lab.evaluation.tally import Summary, summary_of, tally_of
from lab.experiment.run import Context, Experiment, Paper, folder, names
from lab.messages import info
from lab.tidy.files import project_files

RAW = "raw.json"


@dataclass(frozen=True)
class Plan:
    """*results*: the folder of an experiment's results, by its name. *use_kept*: take raw results
    of the same code, tier and seed instead of measuring again."""

    repo: Path
    tier: str
    seed: int
    results: Callable[[str], Path]
    use_kept: bool = False


def code_of(repo: Path, name: str) -> str:
    """The key of the code that an experiment measures; empty if docs/figures.toml has no source."""
    table = read_table(repo)
    source = source_of(table, name)
    if source is None:
        return ""
    return measured_key(repo, table.sources[source], project_files(repo))


def run_all(plan: Plan) -> Summary:
    """Run every experiment; one line about each when it has ended."""
    repo, found = plan.repo, names(plan.repo)
    listing = read_points(repo)
    papers = {name: Paper.read(folder(repo) / name / "paper.toml") for name in found}
    values = {name: paper.results for name, paper in papers.items()}
    missing = listing.missing(values, places(repo, read_table(repo)))
    tallies = []
    for number, name in enumerate(found, 1):
        began_s = time.monotonic()
        try:
            compared, note, ok = _run_one(plan, name)
        except Exception as error:  # whatever it is, the next experiment knows nothing of it
            compared, note, ok = unmeasured(papers[name]), _line(error), False
        minutes = (time.monotonic() - began_s) / 60
        tally = tally_of(name, compared, listing, missing, minutes)
        tally = replace(tally, note=note, ok=ok and tally.ok)
        tallies.append(tally)
        word = "ok" if tally.ok else "FAILED"
        end = f": {note}" if note else ""
        info(f"{number} of {len(found)}: {name} {word}, {minutes:.1f} minutes{end}")
    return Summary(tuple(tallies), tuple(missing))


def _run_one(plan: Plan, name: str) -> tuple[tuple[Value, ...], str, bool]:
    """The values, a note, and whether all statements hold."""
    experiment = Experiment.load(name, plan.repo)
    place = plan.results(name)
    code = code_of(plan.repo, name)
    kept = place / RAW if plan.use_kept and _is_kept(plan, experiment, place / RAW, code) else None
    it = Context.ready(plan.tier, plan.seed, place, code)
    result = experiment.run(it, kept)
    compared = values_of(experiment.paper, result.figures, plan.tier == "full")
    notes = ["kept"] if kept else []
    if not result.ok and not any(value.verdict == "deviates" for value in compared):
        notes.append("a statement of the paper does not hold")
    return compared, ", ".join(notes), result.ok


def _is_kept(plan: Plan, experiment: Experiment, path: Path, code: str) -> bool:
    """Whether raw results are there, of the same code, tier and seed."""
    try:
        return bool(code) and experiment.origin(path) == (code, plan.tier, plan.seed)
    except UsageError:
        return False


def _line(error: Exception) -> str:
    if isinstance(error, RemError):
        return error.message
    return f"{type(error).__name__}: {error}".splitlines()[0]


def recorded(repo: Path) -> Summary:
    """The same of the records in docs/figures, without measuring anything."""
    return summary_of(collect(repo))

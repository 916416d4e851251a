# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The picture that an experiment draws itself, if its raw results are here and are the record's.

Raw results are not in the repository: a run leaves them in report/experiments/ID/. They may be of
another run than the record, so their figures are computed again and compared.
"""

from __future__ import annotations

from pathlib import Path

from lab.evaluation.collect import Entry
from lab.evaluation.pictures import svg
from lab.experiment.run import Experiment, Report, results_folder
from lab.result import Result


def _silent(_: str) -> None:
    """The verdicts of statements are no news here."""


def own_picture(repo: Path, entry: Entry) -> str:
    """As an <svg> element; empty if there is none of the record's figures."""
    path = results_folder(entry.name, repo) / "raw.json"
    if not path.exists() or entry.kept.record is None:
        return ""
    report = Report(Result(entry.name), say=_silent)
    try:
        experiment = Experiment.load(entry.name, repo)
        raw, tier = experiment.read(path)
        accepted = experiment.judge(raw, tier, report)
        if report.result.figures != entry.kept.figures:
            return ""
        figure = experiment.picture(raw, accepted)
    except Exception:  # raw results of other code may lack anything that judge() and draw() read
        return ""
    label = f"{entry.name}: {entry.paper.title}. Drawn by the experiment, of {entry.paper.source}."
    return svg(figure, f"own-{entry.name}", label)

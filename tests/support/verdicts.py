# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments judged on raw results that a test has made up."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from lab.experiment.run import Experiment, Report
from lab.result import Result


def verdict(name: str, raw: Any, tier: str = "full") -> Result:
    """What the experiment of that name says of *raw*."""
    experiment = Experiment.load(name)
    report = Report(Result(name))
    experiment.module.judge(raw, experiment.paper.values, report)
    report.compare(experiment.paper.results, tier == "full")
    return report.result


def counted(result: Result) -> tuple[int, int]:
    """Deviations: accepted, and not."""
    names = ("deviations_accepted", "deviations_not_accepted")
    accepted, failed = (int(result.figures[name].value) for name in names)
    return accepted, failed


def assert_missing_is_red(name: str, raw: Any) -> None:
    """Each value that is expected is a figure, and its absence a failure that names it."""
    experiment = Experiment.load(name)
    report = Report(Result(name))
    experiment.module.judge(deepcopy(raw), experiment.paper.values, report)
    ours = {key: figure.value for key, figure in report.result.figures.items()}
    for value in experiment.paper.results.expected:
        without = {key: figure for key, figure in ours.items() if key != value}
        failed = experiment.paper.results.compare(without, True).failed
        assert list(failed) == [value]

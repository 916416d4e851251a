# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments judged on raw results that a test has made up."""

from __future__ import annotations

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

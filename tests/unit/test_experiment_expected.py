# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An experiment passes only if each expected value of the paper holds within its tolerance or is an
accepted deviation, which is counted.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import InfraError
from lab.experiment.expected import Expected, Values
from lab.experiment.run import Report
from lab.result import Result

EXPECTED = {
    "ratio": {"paper": 9.0, "tolerance_percent": 10},
    "range": {"paper": [7.0, 14.8]},
    "most": {"paper": "wrf"},
    "large": {"at_most": 5, "full": True},
}
RIGHT = {"ratio": 9.8, "range": 7.0, "most": "wrf", "large": 5}
REASON = "the paper does not say"


def judged(accepted: list[str], is_full: bool = True, **changed: Any) -> Result:
    report = Report(Result("experiment"))
    for name, value in (RIGHT | changed).items():
        if value is not None:
            report.add(name, value, "")
    given = [{"figures": accepted, "reason": REASON}] if accepted else []
    report.compare(Values.of(EXPECTED, given), is_full)
    return report.result


def counts(result: Result) -> list[Any]:
    names = ("paper_values_held", "deviations_accepted", "deviations_not_accepted")
    return [result.figures[name].value for name in names]


def test_values_within_their_tolerances_pass() -> None:
    assert judged([]).ok
    assert counts(judged([])) == [4, 0, 0]


@pytest.mark.parametrize(
    "wrong", [{"ratio": 9.91}, {"ratio": 8.0}, {"range": 15.0}, {"most": "mcf"}, {"large": 6}]
)
def test_value_beyond_its_tolerance_fails_unless_it_is_accepted(wrong: dict[str, Any]) -> None:
    result = judged([], **wrong)
    assert not result.ok and counts(result) == [3, 0, 1]
    accepted = judged(list(wrong), **wrong)
    assert accepted.ok and counts(accepted) == [3, 1, 0]


def test_accepted_deviation_of_one_value_excuses_no_other() -> None:
    assert not judged(["most"], ratio=1.0).ok


def test_value_that_was_not_measured_fails_and_cannot_be_accepted() -> None:
    assert not judged([], ratio=None).ok
    assert not judged(["ratio"], ratio=None).ok


def test_short_form_leaves_out_what_only_the_full_one_measures() -> None:
    assert judged([], is_full=False, large=None).ok
    assert not judged([], is_full=True, large=None).ok


@pytest.mark.parametrize(
    ("expected", "accepted"),
    [
        ({"a": {"paper": 1.0}}, []),
        ({"a": {"about": 1.0}}, []),
        ({"a": {}}, []),
        ({"a": {"paper": [1]}}, []),
        ({"a": {"at_most": 1}}, [{"figures": ["b"], "reason": REASON}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], "reason": " "}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a", "a"], "reason": REASON}]),
    ],
)
def test_unclear_expectation_is_refused(expected: Any, accepted: Any) -> None:
    with pytest.raises(InfraError):
        Values.of(expected, accepted)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"at_most": 5}, "at most 5"),
        ({"at_least": 0.95}, "at least 0.95"),
        ({"paper": 10, "tolerance_percent": 10}, "9 to 11"),
        ({"paper": "wrf"}, "wrf"),
    ],
)
def test_expectation_in_words(given: dict[str, Any], text: str) -> None:
    assert str(Expected.of(given)) == text

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An experiment passes only if each expected value of the paper holds within its tolerance or is an
accepted deviation, whose reason a sweep shows. Deviations are counted and become figures.
"""

from __future__ import annotations

from collections.abc import Mapping
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
RIGHT: dict[str, Any] = {"ratio": 9.8, "range": 7.0, "most": "wrf", "large": 5}
REASON = "the paper does not say"
SWEEP: dict[str, Any] = {
    "ratio, changed": 9.0,
    "range, changed": 7.0,
    "most, changed": "wrf",
    "large, changed": 5,
}
SHOWN: dict[str, Any] = {"reason": REASON, "sweep": ["{figure}, changed"]}


def judged(
    accepted: list[str],
    is_full: bool = True,
    shown: dict[str, Any] = SHOWN,
    sweep: dict[str, Any] = SWEEP,
    **changed: Any,
) -> Result:
    report = Report(Result("experiment"))
    for name, value in (RIGHT | changed | sweep).items():
        if value is not None:
            report.add(name, value, "")
    given: list[Mapping[str, Any]] = [{"figures": accepted, **shown}] if accepted else []
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


def test_accepted_deviation_is_a_figure_with_its_reason() -> None:
    result = judged(["ratio", "most"], ratio=1.5, most="mcf")
    listed = {k: f.value for k, f in result.figures.items() if k.startswith("accepted deviation")}
    assert listed == {
        "accepted deviation, ratio": f"1.5, not 8.1 to 9.9: {REASON}",
        "accepted deviation, most": f"mcf, not wrf: {REASON}",
    }
    assert not any(name.startswith("accepted deviation") for name in judged(["ratio"]).figures)


def test_accepted_deviation_without_its_sweep_fails() -> None:
    assert not judged(["ratio"], sweep={}, ratio=1.0).ok


def test_sweep_that_comes_no_nearer_shows_nothing() -> None:
    assert judged(["ratio"], sweep={"ratio, changed": 1.1}, ratio=1.0).ok
    assert not judged(["ratio"], sweep={"ratio, changed": 1.0}, ratio=1.0).ok
    assert not judged(["ratio"], sweep={"ratio, changed": 20.0}, ratio=1.0).ok
    assert not judged(["most"], sweep={"most, changed": "mcf"}, most="mcf").ok


def test_reason_that_something_else_explains_is_refused() -> None:
    shown = {"reason": REASON, "rules_out": ["{figure}, changed"]}
    assert judged(["ratio"], shown=shown, sweep={"ratio, changed": 1.1}, ratio=1.0).ok
    assert not judged(["ratio"], shown=shown, sweep={"ratio, changed": 9.0}, ratio=1.0).ok
    assert not judged(["ratio"], shown=shown, sweep={}, ratio=1.0).ok


def test_accepted_deviation_of_one_value_excuses_no_other() -> None:
    assert not judged(["most"], ratio=1.0).ok


def test_each_expected_value_is_in_one_list() -> None:
    values = Values.of(EXPECTED, [{"figures": ["ratio"], **SHOWN}])
    given = RIGHT | SWEEP | {"ratio": 1.0, "most": "mcf"}
    compared = values.compare(given, is_full=False)
    assert compared.held == ("range",) and compared.left_out == ("large",)
    assert (list(compared.accepted), list(compared.failed)) == (["ratio"], ["most"])


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
        ({"a": {"paper": ["b", "c"]}}, []),
        ({"a": {"paper": 1.0, "tolerance_percent": "5"}}, []),
        ({"a": {"at_most": True}}, []),
        ({"a": {"at_most": 1}}, [SHOWN]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], **SHOWN, "reason": 3}]),
        ({"a": {"at_most": 1}}, [{"figures": ["b"], **SHOWN}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], **SHOWN, "reason": " "}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a", "a"], **SHOWN}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], "reason": REASON}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], **SHOWN, "rules_out": ["b"]}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], "reason": REASON, "sweep": ["{figure}"]}]),
        ({"a": {"at_most": 1}}, [{"figures": ["a"], **SHOWN, "because": "b"}]),
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


@pytest.mark.parametrize(
    ("given", "ours", "percent"),
    [
        ({"paper": 10, "tolerance_percent": 10}, 10, 0),
        ({"paper": 10, "tolerance_percent": 10}, 10.5, 5),  # within, but not the same
        ({"paper": 10, "tolerance_percent": 10}, 5, -50),
        ({"paper": -10, "tolerance_percent": 10}, -5, 50),
        ({"paper": 0, "tolerance_percent": 10}, 1, None),
        ({"paper": [8, 10]}, 9, 0),
        ({"paper": [8, 10]}, 11, 10),
        ({"paper": [8, 10]}, 6, -25),
        ({"at_most": 5}, 4, 0),
        ({"at_most": 5}, 6, 20),
        ({"at_least": 5}, 4, -20),
        ({"paper": "wrf"}, "mcf", None),
    ],
)
def test_deviation_in_percent(given: dict[str, Any], ours: Any, percent: float | None) -> None:
    assert Expected.of(given).deviation_percent(ours) == percent

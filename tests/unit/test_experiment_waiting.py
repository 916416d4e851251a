# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Waiting for servers without power, or copying elsewhere: costs by hand, and what wsp-rack says.

Goal: the cost of a wait is right for the worst outage and for a mix, and the experiment's
statements are red where a mechanism is missing.
Method: one server whose copy takes 10 s and who misses nothing, with costs by hand; the
experiment's short form, with results that are changed, or a simulation that is.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lab.docs import records
from lab.errors import InfraError
from lab.experiment import links, waiting
from lab.experiment.rack import Missed, Outage, Rack, simulate
from lab.experiment.run import Context, Experiment
from lab.experiment.waiting import JUST_LONGER, NEVER, Lengths
from tests.support.verdicts import counted, verdict
from tests.unit.test_experiment_rack import SMALL, alone

NAME = "wsp-rack"
# Its copy takes 10 s; what it missed is as good as nothing.
EASY = replace(SMALL, uplink=1e6, restore_s=0, missed=Missed(((1, 1e-9), (2, 2e-9))))
ONE = Outage(1, 0.0)
WAITS_S = (2, 5, 10, 20, 50)
WORST_S = [*WAITS_S, *(wait_s * JUST_LONGER for wait_s in WAITS_S)]


def test_a_copy_is_timed_as_if_it_began_at_once() -> None:
    assert waiting.copy_s(EASY, ONE) == pytest.approx(10, rel=1e-5)
    three = replace(EASY, uplink=100)
    assert waiting.copy_s(three, replace(ONE, failed=3)) == pytest.approx(30, rel=1e-5)


@pytest.mark.parametrize(("wait_s", "worst"), [(0, 5), (2, 6), (5, 3), (10, 2), (20, 3), (50, 6)])
def test_worst_outage_ends_just_after_the_wait(wait_s: float, worst: float) -> None:
    """It costs the wait and the copy: 10 s more, beside the shorter of the outage and a copy. To
    copy at once is worst for the shortest outage, of 2 s."""
    assert waiting.worst_ratio(EASY, ONE, wait_s, WORST_S) == pytest.approx(worst, rel=1e-4)


def test_never_to_copy_has_no_bound_but_the_longest_outage() -> None:
    assert waiting.worst_ratio(EASY, ONE, NEVER, WORST_S) == pytest.approx(5, rel=1e-4)


def test_without_memory_to_copy_at_once_is_best_whatever_the_outage() -> None:
    lost = replace(ONE, way="peers")
    assert waiting.worst_ratio(EASY, lost, 0, WORST_S) == pytest.approx(1)
    assert waiting.worst_ratio(EASY, lost, 10, WORST_S) == pytest.approx(2, rel=1e-4)


def test_mean_weighs_what_outages_cost() -> None:
    """A quarter takes 40 s: 5 s of waiting and the copy; the rest, of 4 s, is waited for."""
    found = waiting.mean(EASY, ONE, 5, [(4, 0.75), (40, 0.25)])
    assert found.missing_s == pytest.approx(0.75 * 4 + 0.25 * 15, rel=1e-4)
    assert found.moved_bytes == pytest.approx(0.25 * 1000, rel=1e-4)


@pytest.mark.parametrize("takes_back", [False, True])
@pytest.mark.parametrize("off_s", [3, 5, 5.1, 9, 400])
def test_outcome_is_that_of_the_simulation(off_s: float, takes_back: bool) -> None:
    outage = Outage(2, off_s, "memory", "across", 5, takes_back)
    assert waiting.outcome(SMALL, outage) == simulate(SMALL, outage)


def test_lengths_are_fitted_to_a_share_and_a_mean() -> None:
    made = Lengths(100, 2)
    again = Lengths.fitted(made.share_below(60), 60, made.mean_over(300), 300)
    assert (again.median_s, again.spread) == pytest.approx((100, 2))
    weighed = made.weighed(0.01)
    assert sum(share for _, share in weighed) == pytest.approx(1, abs=1e-4)
    below = sum(share for length_s, share in weighed if length_s < 60)
    assert below == pytest.approx(made.share_below(60), abs=2e-3)
    over = [(length_s, share) for length_s, share in weighed if length_s > 300]
    mean_s = sum(a * b for a, b in over) / sum(share for _, share in over)
    assert mean_s == pytest.approx(made.mean_over(300), rel=0.01)
    assert made.mean_over(1e-9) == pytest.approx(100 * math.exp(2))


def test_lengths_that_no_distribution_has_are_refused() -> None:
    with pytest.raises(ValueError, match="no log-normal"):
        Lengths.fitted(0.5, 100, 200, 300)  # the mean of what is longer than 300 s is no 200 s


# The experiment, in its short form.


def measured(out: Path) -> Any:
    return Experiment.load(NAME).module.measure(Context("ci", 0, out, cast(Any, None)))


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Any:
    waiting._simulated.cache_clear()
    return measured(tmp_path_factory.mktemp("rack"))


def test_rack_answers_the_papers_question(raw: Any) -> None:
    result = verdict(NAME, raw)
    assert result.ok
    assert counted(result) == (0, 0)
    figures = {name: figure.value for name, figure in result.figures.items()}
    # 256 GB at 1.25 GB/s, of which new writes take some.
    assert 204.8e9 < figures["across, 1 of 48, copy_ns"] < 1.1 * 204.8e9
    assert figures["across, 48 of 48, copy_ns"] > 256e9 * 48 / 20e9 * 1e9
    assert figures["within, 48 of 48, 60 s, memory, last_ns"] == 70e9


def test_rack_is_drawn(raw: Any) -> None:
    from matplotlib import pyplot as plt

    figure = Experiment.load(NAME).picture(raw, [])
    times, moved, waits = figure.axes
    assert [len(axes.get_lines()) for axes in (times, moved)] == [4, 4]
    assert len(waits.get_lines()) == 2 * 3 + 2 + 1
    plt.close(figure)


def test_rack_whose_servers_do_not_share_the_back_end_is_red(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(links, "fair_rates", alone)
    waiting._simulated.cache_clear()
    broken = measured(tmp_path)
    waiting._simulated.cache_clear()
    result = verdict(NAME, broken)
    assert not result.ok
    assert counted(result) == (0, 1)  # "or hours for a whole cluster"


def test_rack_whose_policy_never_copies_is_red(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = waiting.outcome

    def outcome(rack: Rack, outage: Outage) -> Any:
        is_asked = 0 < outage.wait_s < NEVER and math.isfinite(outage.off_s)
        return whole(rack, replace(outage, wait_s=NEVER) if is_asked else outage)

    monkeypatch.setattr(waiting, "outcome", outcome)
    assert not verdict(NAME, measured(tmp_path)).ok


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("storm_ns",), 600e9),
        (("outages", "across, 48 of 48", 0, "memory", "last_s"), 1e9),
        (("outages", "within, 24 of 48", -1, "memory", "peer_bytes"), 1e18),
        (("outages", "across, 1 of 48", 0, "peers", "stalled_s"), 1.0),
        (("waits", "across, 48 of 48", "rows", 0, "lost", "mean_s"), 1e9),
        (("waits", "across, 48 of 48", "rows", 1, "memory", "worst"), 1.5),
        (("swept", "within, 24 of 48", "writes x 3", "worst"), 2.2),
        (("waits", "across, 48 of 48", "rows", 0, "memory", "moved_bytes"), 0.0),
    ],
)
def test_rack_statement_that_does_not_hold_is_red(
    raw: Any, place: tuple[Any, ...], wrong: float
) -> None:
    changed = deepcopy(raw)
    at: Any = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = wrong
    assert not verdict(NAME, changed).ok


def test_rack_expects_values_of_the_paper_and_missing_them_is_red(raw: Any) -> None:
    result = verdict(NAME, raw)
    ours = {key: figure.value for key, figure in result.figures.items()}
    results = Experiment.load(NAME).paper.results
    assert len(results.expected) == 2
    for value in results.expected:
        without = {key: figure for key, figure in ours.items() if key != value}
        assert list(results.compare(without, True).failed) == [value]


def test_rack_without_measured_bytes_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    experiment = Experiment.load(NAME)
    it = Context("ci", 0, tmp_path, cast(Any, None))
    monkeypatch.setattr(experiment.module, "read_record", lambda repo, name: None)
    with pytest.raises(InfraError, match="./rem docs --refresh wsp-catch-up"):
        experiment.module.measure(it)
    bare = records.Record("experiment", "0", {})
    monkeypatch.setattr(experiment.module, "read_record", lambda repo, name: bare)
    with pytest.raises(InfraError, match="has no 'cold, redis_bytes'"):
        experiment.module.measure(it)

# SPDX-License-Identifier: Apache-2.0 OR MIT
"""experiments/points.toml: no value that a paper prints is lost.

Goal: a point that no paper.toml has, as expected or with the reason why it cannot be had, is found.
Method: the list of this repository as it is; then each point is taken out of its paper.toml, one
after the other; then lists that are wrong.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.docs.records import read_table
from lab.errors import InfraError
from lab.evaluation.collect import places
from lab.evaluation.points import Listing, Missing, PaperRow, read_points
from lab.experiment.expected import Values
from lab.experiment.run import Paper, folder, names
from lab.paths import repo_dir


@pytest.fixture(scope="module")
def listing() -> Listing:
    return read_points(repo_dir())


@pytest.fixture(scope="module")
def papers() -> dict[str, Values]:
    return {name: Paper.read(folder() / name / "paper.toml").results for name in names()}


@pytest.fixture(scope="module")
def there() -> set[str]:
    return places(repo_dir(), read_table(repo_dir()))


def unlisted(missing: list[Missing]) -> set[tuple[str, str]]:
    return {(one.row, one.point) for one in missing if not one.reason}


def test_every_point_is_expected_or_has_a_reason(
    listing: Listing, papers: dict[str, Values], there: set[str]
) -> None:
    assert unlisted(listing.missing(papers, there)) == set()


def test_every_experiment_has_a_row(listing: Listing) -> None:
    listed = {name for row in listing.rows for name in row.experiments}
    assert listed == set(names())


def test_what_cannot_be_had_is_a_point(listing: Listing, papers: dict[str, Values]) -> None:
    points = {(name, point) for row in listing.rows for name in row.experiments
              for point in row.points}  # fmt: skip
    reasons = {(name, point) for name, values in papers.items() for point in values.unobtainable}
    assert reasons <= points


def test_point_that_is_taken_out_is_missed(
    listing: Listing, papers: dict[str, Values], there: set[str]
) -> None:
    taken = 0
    for row in listing.rows:
        for point in row.points:
            without = {name: _without(papers[name], row, point) for name in row.experiments}
            missing = unlisted(listing.missing(papers | without, there))
            assert (row.id, point) in missing or point in row.unobtainable
            taken += 1
    assert taken > 200


def _without(values: Values, row: PaperRow, point: str) -> Values:
    ends = tuple(f"{point}{end}" for end in "_,") if row.grouped else ()
    return replace(
        values,
        expected={
            name: one
            for name, one in values.expected.items()
            if name != point
            and not name.startswith(ends)
            and not (row.grouped and name.endswith(f", {point}"))
        },
        unobtainable={name: why for name, why in values.unobtainable.items() if name != point},
    )


def test_row_without_an_experiment_names_what_measures_it() -> None:
    rows = (
        PaperRow("A", measured=("campaign-pm",)),
        PaperRow("B", measured=("campaign-pm", "no-such")),
        PaperRow("C", reason="no such machine"),
    )
    missing = Listing(rows).missing({}, {"campaign-pm"})
    assert [(one.row, one.reason) for one in missing] == [("B", ""), ("C", "no such machine")]


def test_value_of_a_grouped_row_belongs_to_its_line() -> None:
    row = PaperRow("T", ("t",), {"AES": "1", "AES2": "2"}, grouped=True)
    listing = Listing((row,))
    found = [listing.point_of("t", name) for name in ("AES", "AES_reads", "AES2, hits", "mcf")]
    assert found == ["AES", "AES", "AES2", "mcf"]
    assert [listing.point_of("t", name) for name in ("redis, AES", "redisAES", "AES, x, AES")] == [
        "AES", "redisAES", "AES",
    ]  # fmt: skip
    assert listing.point_of("other", "AES_reads") == "AES_reads"


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[[row]]\nexperiments = ["a"]\n',
        '[[row]]\nid = "A"\n',
        '[[row]]\nid = "A"\nreason = " "\n',
        '[[row]]\nid = "A"\nexperiments = ["a"]\nreason = "b"\n',
        '[[row]]\nid = "A"\nreason = "b"\nnote = "c"\n',
        '[[row]]\nid = "A"\nreason = "b"\n[[row]]\nid = "A"\nreason = "b"\n',
        '[[row]]\nid = "A"\nexperiments = ["a"]\n[[row.unobtainable]]\npoints=["b"]\nreason="c"\n',
        "row = 3\n",
    ],
)
def test_wrong_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "points.toml").write_text(text)
    with pytest.raises(InfraError, match=r"points\.toml"):
        read_points(tmp_path)


def test_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"points\.toml"):
        read_points(tmp_path)

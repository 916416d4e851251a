# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Placement of pages, and numbers of parts that are changed, for experiments.

Goal: shares are of the requests that the placement has not seen; a sweep changes one number, and
the model follows. Method: traces of a few records, and the table's own numbers.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lab import format as fmt
from lab.errors import InfraError, RemError
from lab.experiment.placement import (
    INTERLEAVED,
    KNOWN,
    PAGE_LINES,
    PLACEMENTS,
    RANGES,
    WRITTEN,
    landed,
    pages_of,
)
from lab.experiment.power_parts import assumed, power_number, with_number
from lab.experiment.processors import cache_bytes, processor_number
from lab.power.model import PowerModel

READ, WRITE, IDLE = (int(kind) for kind in (fmt.TraceKind.READ, fmt.TraceKind.WRITE, 3))
QUARTER = Fraction(1, 4)


def trace(tmp_path: Path, requests: list[tuple[int, int]]) -> Path:
    """Of (kind, page); an idle record before each."""
    records = [word for kind, page in requests for word in (IDLE << 46, _record(kind, page))]
    body = b"".join(word.to_bytes(8, "little") for word in records)
    header = fmt.VIEWS.rem_trace_header(
        magic=fmt.CONST["REM_TRACE_MAGIC"], version=fmt.CONST["REM_TRACE_VERSION"], line_bytes=64,
        count=len(records), lines=1 << 20, cpu_count=1, check=fmt.crc32c(body),
    )  # fmt: skip
    path = tmp_path / "trace"
    path.write_bytes(header.dumps() + body)
    return path


def _record(kind: int, page: int) -> int:
    return kind << 46 | (page * PAGE_LINES + PAGE_LINES - 1) | 7 << 48


def writes(*pages: int) -> list[tuple[int, int]]:
    return [(WRITE, page) for page in pages]


def test_second_half_is_counted_and_the_first_half_known(tmp_path: Path) -> None:
    first = writes(3, 3, 3, 2)
    second = [*writes(3, 1), (READ, 0), (READ, 3)]
    pages = pages_of(trace(tmp_path, [*first, *second]))
    assert list(pages.numbers) == [0, 1, 2, 3]
    assert [list(half) for half in pages.written] == [[0, 0, 1, 3], [0, 1, 0, 1]]
    assert landed(pages, WRITTEN, QUARTER) == {"writes": 0.5, "reads": 0.5}
    assert landed(pages, RANGES, QUARTER) == {"writes": 0.0, "reads": 0.5}
    assert landed(pages, INTERLEAVED, Fraction(1, 2))["writes"] == 0.0
    # Page 1 is as good as page 3 for who knows.
    assert landed(pages, KNOWN, Fraction(1, 2)) == {"writes": 1.0, "reads": 0.5}


def test_placement_that_has_seen_nothing_useful_takes_no_more(tmp_path: Path) -> None:
    """The negative proof: a program that writes elsewhere later."""
    pages = pages_of(trace(tmp_path, writes(0, 0, 0, 1, 2, 3, 3, 3)))
    assert landed(pages, WRITTEN, QUARTER)["writes"] == 0
    assert landed(pages, KNOWN, QUARTER)["writes"] == 0.75


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_none_and_all_of_the_pages_get_none_and_all(tmp_path: Path, placement: str) -> None:
    pages = pages_of(trace(tmp_path, writes(*range(8), *range(8))))
    assert landed(pages, placement, Fraction(0)) == {"writes": 0.0, "reads": 0.0}
    assert landed(pages, placement, Fraction(1))["writes"] == 1.0


def test_file_that_is_no_trace_or_never_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RemError, match="no writes"):
        pages_of(trace(tmp_path, [*writes(0), (READ, 0)]))
    other = tmp_path / "other"
    other.write_bytes(bytes(80))
    with pytest.raises(RemError, match="no trace"):
        pages_of(other)


def test_caches_and_numbers_are_those_of_the_table() -> None:
    one, four = (cache_bytes("wsp-c5528", cpus) for cpus in (1, 4))
    assert four - one == 3 * (32 + 256 << 10)
    assert one == 32 + 256 + 8192 << 10
    assert cache_bytes("lightpc", 8) == 8 * 16 << 10
    assert processor_number("wsp-c5528", "queue_lines") == 64


def test_model_follows_a_number_that_is_changed_and_only_that(tmp_path: Path) -> None:
    plain = PowerModel.ready()
    place = ("nvdimm", "agiga", "channel_save_mw")
    twice = with_number(plain, tmp_path, place, 2 * power_number(*place))

    def ask(model: PowerModel) -> dict[str, Any]:
        answer: dict[str, Any] = model.ask("nvdimm", name="agiga", bytes=1 << 30)
        return answer

    assert ask(twice)["save_pj"] == 2 * ask(plain)["save_pj"]
    assert ask(twice)["save_ns"] == ask(plain)["save_ns"]
    assert "channel_save_mw" in assumed("nvdimm", "agiga")
    assert "empty_mv" not in assumed("nvdimm", "agiga")
    with pytest.raises(InfraError, match="no_such"):
        with_number(plain, tmp_path, ("nvdimm", "agiga", "no_such"), 1)

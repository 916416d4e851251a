# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The discharge of a Stop: what was left when, and the margin; from a fake log of the plugin and a
fake power model. A log that ends anywhere is a shorter discharge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.power.discharge import (
    Discharge,
    Sample,
    counter_events,
    discharge_of,
    in_time_order,
    margin_line,
    read_samples,
    whole_timeline,
)
from lab.power.model import PowerModel
from lab.record.block import decode
from lab.record.timeline import Timeline, chrome_trace, timeline_of
from tests.support.record_builder import make_block

OUT_OF_ORDER = "0 255 drop 900\n100000 1 begin 800\n600000 1 end 300\n200000 1 begin 0\n"
SIDE_BY_SIDE = (
    "0 255 drop 900\n100000 1 begin 800\n600000 1 end 300\n200000 0 begin 300\n700000 0 end 0\n"
)
IN_ORDER = (
    "0 255 drop 900\n100000 1 begin 800\n600000 1 end 300\n600000 0 begin 300\n900000 0 end 2\n"
)
CUT: dict[str, Any] = {
    "announced": True, "hold_up_ns": 2_000_000, "stopped": True, "stopped_after_ns": 1_000_000,
    "caches": {"differ_lines": 4}, "supply": "s",
}  # fmt: skip


class Model(PowerModel):
    """1 pJ a ns and thousandth of the cores, of 2,000,000,000 pJ."""

    def ask(self, question: str, **words: Any) -> Any:
        assert question == "discharge" and words["name"] == "s"
        left, all_left = 2_000_000_000, []
        for step in words["steps"]:
            left = max(left - step["time_ns"] * step["running_permille"], 0)
            all_left.append(left)
        return {"energy_pj": 2_000_000_000, "left_pj": all_left, "dry_ns": None}


@pytest.fixture
def samples(tmp_path: Path) -> list[Sample]:
    path = tmp_path / "flushes.log"
    path.write_text(IN_ORDER, encoding="ascii")
    return read_samples(path)


def discharge(samples: list[Sample], **changes: Any) -> Discharge:
    found = discharge_of({**CUT, **changes}, samples, 2, Model(Path("none")))
    assert found is not None
    return found


def test_file_ends_at_the_first_malformed_line(tmp_path: Path) -> None:
    path = tmp_path / "flushes.log"
    assert read_samples(path) == []
    path.write_text(OUT_OF_ORDER, encoding="ascii")
    assert [s.what for s in read_samples(path)] == ["drop", "begin", "end"]  # time went backwards
    for rest in ("1", "1 2 3", "x 0 begin 1", "9999999 0 end -1", "\xff\xfe"):
        path.write_bytes(IN_ORDER.encode() + rest.encode("latin-1"))
        assert len(read_samples(path)) == 5, rest


def test_flushes_side_by_side_are_in_the_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "flushes.log"
    path.write_text(SIDE_BY_SIDE, encoding="ascii")
    ordered = in_time_order(read_samples(path))
    assert [(s.time_ns, s.cpu, s.lines) for s in ordered] == [
        (0, 255, 900),
        (100_000, 1, 800),
        (200_000, 0, 700),  # the other CPU has written a fifth of its 500
        (600_000, 1, 60),  # this one four fifths of its 300
        (700_000, 0, 0),
    ]


def test_cpus_that_have_flushed_draw_less(samples: list[Sample]) -> None:
    found = discharge(samples)
    assert [point.running for point in found.points] == [2, 2, 1, 1, 1, 1]
    # 0.6 ms with both, 0.4 ms with one.
    assert found.points[-1].energy_pj == found.margin_pj == 2_000_000_000 - 800_000_000
    assert found.margin_ns == 1_000_000
    assert [point.lines for point in found.points] == [900, 800, 300, 300, 2, 4]
    assert margin_line(found) == "margin: 1.000 ms of 2 ms, 1.2 mJ of 2.0 mJ (s)"


def test_without_a_supply_there_is_no_energy(samples: list[Sample]) -> None:
    found = discharge(samples, supply=None)
    assert found.margin_pj is None and found.margin_ns == 1_000_000
    assert all(point.energy_pj is None for point in found.points)
    assert "mJ" not in margin_line(found)
    assert {event["name"] for event in counter_events(found)} == {"dirty lines left"}


def test_stop_that_ran_dry_has_no_margin(samples: list[Sample]) -> None:
    found = discharge(
        samples[:2], stopped=False, stopped_after_ns=None, caches={"differ_lines": 750}
    )
    assert (found.margin_ns, found.margin_pj, found.end_ns) == (None, None, 2_000_000)
    assert margin_line(found).startswith("no margin: the hold-up of 2 ms") and "750" in margin_line(
        found
    )


def test_cut_without_hold_up_has_no_discharge(samples: list[Sample]) -> None:
    for changes in ({"announced": False}, {"hold_up_ns": 0}):
        assert discharge_of({**CUT, **changes}, samples, 2, None) is None
    assert discharge_of(CUT, [], 2, None) is None
    assert discharge_of({}, samples, 2, None) is None


def test_timeline_is_extended_to_the_commit(samples: list[Sample]) -> None:
    newest = decode(bytes(make_block())).newest
    assert newest is not None
    timeline = timeline_of(newest)
    assert isinstance(timeline, Timeline)
    found = discharge(samples)
    whole = whole_timeline(timeline, found, samples)
    added = [span for span in whole.spans if span not in timeline.spans]
    assert [(span.name, span.cpu) for span in added] == [
        ("write back caches", 1), ("write back caches", 0), ("commit", 0),
    ]  # fmt: skip
    assert (added[-1].begin_ns, added[-1].end_ns) == (900_000, 1_000_000)
    events = chrome_trace(whole, counter_events(found))["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert len(counters) == 2 * len(found.points)
    assert {event["name"] for event in counters} == {"dirty lines left", "energy left"}


def test_picture_shows_lines_and_energy_left(samples: list[Sample]) -> None:
    from lab.report.timeline_picture import svg

    newest = decode(bytes(make_block())).newest
    assert newest is not None
    timeline = timeline_of(newest)
    assert timeline is not None
    found = discharge(samples)
    with_course = svg(whole_timeline(timeline, found, samples), found)
    assert "energy left" not in svg(timeline)
    assert with_course.count("<path") > svg(timeline).count("<path")

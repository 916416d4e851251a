# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The demonstration's verdict: what could not be verified counts as lost; its page is true.

Method: fake clients give every kind of answer; pages are made of planted outcomes.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tests.support.record_builder as build
from lab.demo.outcome import Outcome
from lab.demo.page import page
from lab.demo.run import draw_picture
from lab.demo.story import Before
from lab.demo.verdict import all_lost, read_back
from lab.errors import RemError
from lab.record.block import decode
from lab.record.timeline import timeline_of
from lab.report.timeline_picture import svg
from lab.testbed.guest_job import identify, numbers_in
from lab.testbed.workload import Workload

GOOD = {
    "drained": True,
    "failures": [],
    "lost": 0,
    "repeated": 0,
    "checked": 100,
    "first_loss": None,
    "longest_gap_ns": 5,
}


def work(**answers: dict[str, Any]) -> Workload:
    """A workload with clients that give these answers to `verify`."""
    loads = {
        name: SimpleNamespace(ask=lambda *_, answer=answer, **__: answer)
        for name, answer in answers.items()
    }
    return cast(Workload, SimpleNamespace(writers=lambda: loads))


@pytest.mark.parametrize(
    ("answer", "lost", "problems"),
    [
        (GOOD, 0, 0),
        ({**GOOD, "lost": 3, "first_loss": "redis key rem:0:7"}, 3, 1),
        ({**GOOD, "drained": False, "waiting_clients": 2}, 70, 1),
        ({**GOOD, "failures": ["redis client 1: the connection ended"]}, 70, 1),
    ],
)
def test_unverified_writes_count_as_lost(answer: dict[str, Any], lost: int, problems: int) -> None:
    tally = read_back(work(redis=answer, memcached=GOOD), {"redis": 70, "memcached": 30})
    assert (tally.lost, len(tally.problems)) == (lost, problems)


def test_cold_boot_loses_everything() -> None:
    outcome = Outcome(lambda _: None)
    before = Before({}, "id", "run", {"redis": 70, "memcached": 30})
    all_lost(before, outcome)
    assert outcome.result.figures["lost_writes"].value == 100
    assert outcome.result.figures["resumed"].value == 0


def test_one_broken_promise_fails_the_whole() -> None:
    outcome = Outcome(lambda _: None)
    assert outcome.check("one", True, "kept") and outcome.result.ok
    assert not outcome.check("two", False, "why")
    assert outcome.check("three", True, "kept") and not outcome.result.ok


PROMISE = ("the same kernel runs", True)
BROKEN = ("no kernel warning", False)
DIGEST = ("the digest detects that lines are lost", True)
UNDETECTED = ("the workload's checks detect the loss", False)


@pytest.mark.parametrize(
    ("no_flush", "checks", "heading"),
    [
        (None, [PROMISE], "The power failed, and everything continued"),
        (
            None,
            [PROMISE, BROKEN],
            'The power failed, and a check failed: "no kernel warning"',
        ),
        (None, [], "The power failed, and nothing was checked"),
        (
            "data",
            [DIGEST],
            "Stop's flushes were disabled (data): data was lost, and both checks detected it",
        ),
        (
            "all",
            [DIGEST, UNDETECTED],
            "Stop's flushes were disabled (all), and the proof failed: "
            '"the workload\'s checks detect the loss"',
        ),
        ("data", [], "Stop's flushes were disabled (data), and nothing was checked"),
    ],
)
def test_heading_of_the_page_is_the_outcome(
    no_flush: str | None, checks: list[tuple[str, bool]], heading: str
) -> None:
    outcome = Outcome(lambda _: None, no_flush=no_flush)
    for name, ok in checks:
        outcome.check(name, ok, "as planted")
    assert outcome.heading() == heading
    html = unescape(page(outcome, None))
    assert f"<title>{heading}</title>" in html and f"<h1>{heading}</h1>" in html
    assert ("everything continued" in html) == (no_flush is None and checks == [PROMISE])


def test_page_is_complete_and_self_contained() -> None:
    outcome = Outcome(lambda _: None)
    outcome.report("A <story> & more")
    outcome.check("a promise", False, "because <b>")
    outcome.result.add("stop_ns", 1_500_000, "ns", "native")
    timeline = timeline_of(decode(bytes(build.make_block())).slots[1])
    assert timeline is not None
    picture = svg(timeline)
    ElementTree.fromstring(picture)
    html = page(outcome, picture)
    assert "A &lt;story&gt; &amp; more" in html and "because &lt;b&gt;" in html
    assert "FAILED" in html and "1.500" in html and "Not modelled" in html
    body = html.replace(picture, "")
    assert "http" not in body and "src=" not in body


def test_picture_is_drawn_from_the_record_and_is_the_same_each_time(tmp_path: Path) -> None:
    outcome = Outcome(print_line=lambda _: None)
    with pytest.raises(RemError, match="no timeline"):
        draw_picture(outcome, tmp_path / "none.svg")
    outcome.timeline = timeline_of(decode(bytes(build.make_block())).slots[1])
    drawn = []
    for name in ("one.svg", "two.svg"):
        draw_picture(outcome, tmp_path / name)
        drawn.append((tmp_path / name).read_text())
    ElementTree.fromstring(drawn[0])
    assert drawn[0] == drawn[1] and not (tmp_path / "none.svg").exists()


def test_process_is_its_number_and_its_start_time() -> None:
    stat = "12 (a b) c) S " + " ".join(str(n) for n in range(4, 53))
    answer = SimpleNamespace(stdout=f"{stat}\nnonsense\n13 (x) S 1\n")
    machine = cast(Any, SimpleNamespace(run_in_guest=lambda *_, **__: answer))
    found = identify(machine, [12, 13])
    assert list(found) == [12] and found[12].start_ticks == 22  # field 22 of proc(5)


def test_numbers_in_a_line() -> None:
    assert numbers_in("AT rem-x a=1 b=-2 c=x d=") == {"a": 1, "b": -2}
